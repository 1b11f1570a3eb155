/*
 * line_layout.c
 *	  What Python says of the lines of a table becomes what lines.c reads them by.
 */
#include "lines.h"

/* Take the entries of a list: (prefix, kind, is_captured) each; false with an exception set. */
static bool
take_entries(Entries *entries, PyObject *from)
{
	Py_ssize_t	count;

	if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) > MAX_ENTRIES)
	{
		PyErr_SetString(PyExc_TypeError, "columns are a tuple");
		return false;
	}
	count = PyTuple_GET_SIZE(from);
	entries->list = PyMem_Calloc((size_t) count + 1, sizeof(Entry));
	if (entries->list == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = 0; i < count; i++)
	{
		Entry	   *entry = &entries->list[i];
		Py_ssize_t	size;
		int			kind;
		int			is_captured;

		if (!PyArg_ParseTuple(PyTuple_GET_ITEM(from, i), "y#Cp", &entry->prefix, &size, &kind,
							  &is_captured))
			return false;
		entry->prefix_size = (size_t) size;
		entry->kind = (char) kind;
		entry->is_captured = is_captured != 0;
		entries->captured += is_captured != 0;
		entries->count++;
	}
	return true;
}

/* Take pairs of a key's places among the values, in the new row and in the old one. */
static bool
take_key(LineReading *reading, PyObject *from)
{
	if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) > MAX_KEY)
	{
		PyErr_SetString(PyExc_TypeError, "a key is a tuple");
		return false;
	}
	for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++)
	{
		KeyPlace   *place = &reading->key[i];

		if (!PyArg_ParseTuple(PyTuple_GET_ITEM(from, i), "ii", &place->new, &place->old))
			return false;
		if (place->new < 0 || place->new >= reading->value_count ||
			place->old < 0 || place->old >= reading->value_count)
		{
			PyErr_SetString(PyExc_IndexError, "there is no such value");
			return false;
		}
		reading->key_size++;
	}
	return true;
}

/* Get what changes are made of; false with an exception set. */
bool
prepare_lines(LineReading *reading, PyObject *new, PyObject *old, PyObject *key)
{
	if (!take_entries(&reading->new, new) || !take_entries(&reading->old, old))
		return false;
	reading->value_count = reading->new.captured + reading->old.captured;
	if (!take_key(reading, key))
		return false;
	reading->null = PyBytes_FromString("\\N");
	reading->empty = PyBytes_FromString("");
	for (int i = 0; i < 3; i++)
		reading->actions[i] = PyBytes_FromStringAndSize(&LINE_ACTIONS[i], 1);
	return !PyErr_Occurred();
}

void
finish_lines(LineReading *reading)
{
	PyMem_Free(reading->new.list);
	PyMem_Free(reading->old.list);
	PyMem_Free(reading->lines);
	PyMem_Free(reading->values);
	Py_XDECREF(reading->null);
	Py_XDECREF(reading->empty);
	for (int i = 0; i < 3; i++)
		Py_XDECREF(reading->actions[i]);
}
