/*
 * deal.c
 *	  The changes of a big table are dealt to slices by their keys.
 *
 * replayer/shard/slicing.py does the same in Python, and is what this has to be equal to: which
 * slice a row belongs to must be the same in every process.
 */
#include "bytes.h"

/* As PostgreSQL's INDEX_MAX_KEYS. */
#define MAX_KEY 32

static uint32_t crc_table[256];

/* The CRC-32 of zlib, one byte at a time: keys are short. */
static uint32_t
add_crc(uint32_t crc, const unsigned char *at, size_t size)
{
	if (crc_table[1] == 0)
	{
		for (uint32_t i = 0; i < 256; i++)
		{
			uint32_t	value = i;

			for (int bit = 0; bit < 8; bit++)
				value = value >> 1 ^ (value & 1 ? UINT32_C(0xEDB88320) : 0);
			crc_table[i] = value;
		}
	}
	while (size-- > 0)
		crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 0xFF];
	return crc;
}

/* Take the places of a key's columns in a change; returns how many, -1 with an exception set. */
static int
take_places(PyObject *from, Py_ssize_t *places)
{
	if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) < 1 || PyTuple_GET_SIZE(from) > MAX_KEY)
	{
		PyErr_SetString(PyExc_TypeError, "a key is a tuple of places");
		return -1;
	}
	for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++)
	{
		places[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(from, i));
		if (PyErr_Occurred())
			return -1;
	}
	return (int) PyTuple_GET_SIZE(from);
}

/* Return a value of a change; NULL with an exception set.  The reference is borrowed. */
static PyObject *
value_at(PyObject *change, Py_ssize_t place)
{
	PyObject   *value;

	if (!PyTuple_Check(change) || place < 0 || place >= PyTuple_GET_SIZE(change))
	{
		PyErr_SetString(PyExc_IndexError, "a change has no such value");
		return NULL;
	}
	value = PyTuple_GET_ITEM(change, place);
	if (!PyBytes_Check(value))
	{
		PyErr_SetString(PyExc_TypeError, "values are bytes");
		return NULL;
	}
	return value;
}

/* Find the number of a change's row; false with an exception set. */
static bool
number_of(PyObject *change, const Py_ssize_t *places, int count, uint32_t *number)
{
	uint32_t	crc = UINT32_C(0xFFFFFFFF);

	for (int i = 0; i < count; i++)
	{
		PyObject   *value = value_at(change, places[i]);

		if (value == NULL)
			return false;
		if (i > 0)
			crc = add_crc(crc, (const unsigned char *) "\t", 1);
		crc = add_crc(crc, (const unsigned char *) PyBytes_AS_STRING(value),
					  (size_t) PyBytes_GET_SIZE(value));
	}
	*number = ~crc;
	return true;
}

/*
 * deal(changes, places, count) -> [[change, ...], ...]
 *
 * The changes of each of "count" slices, by the values that stand at the places of the key.
 */
PyObject *
deal(PyObject *Py_UNUSED(module), PyObject *args)
{
	PyObject   *changes;
	PyObject   *key;
	Py_ssize_t	places[MAX_KEY];
	Py_ssize_t	count;
	int			key_size;
	PyObject   *slices;

	if (!PyArg_ParseTuple(args, "O!On", &PyList_Type, &changes, &key, &count))
		return NULL;
	key_size = take_places(key, places);
	if (key_size < 0)
		return NULL;
	if (count < 1 || count > INT32_MAX)
	{
		PyErr_SetString(PyExc_ValueError, "there is at least one slice");
		return NULL;
	}
	slices = PyList_New(count);
	for (Py_ssize_t i = 0; slices != NULL && i < count; i++)
	{
		PyObject   *slice = PyList_New(0);

		if (slice == NULL)
			Py_CLEAR(slices);
		else
			PyList_SET_ITEM(slices, i, slice);
	}
	for (Py_ssize_t i = 0; slices != NULL && i < PyList_GET_SIZE(changes); i++)
	{
		PyObject   *change = PyList_GET_ITEM(changes, i);
		uint32_t	number;

		if (!number_of(change, places, key_size, &number) ||
			PyList_Append(PyList_GET_ITEM(slices, number % (uint32_t) count), change) < 0)
			Py_CLEAR(slices);
	}
	return slices;
}

/*
 * has_fixed(changes, new, old) -> bool
 *
 * Whether every update has the same values at the places of both keys.
 */
PyObject *
has_fixed(PyObject *Py_UNUSED(module), PyObject *args)
{
	PyObject   *changes;
	PyObject   *keys[2];
	Py_ssize_t	new_places[MAX_KEY];
	Py_ssize_t	old_places[MAX_KEY];
	int			key_size;

	if (!PyArg_ParseTuple(args, "O!OO", &PyList_Type, &changes, &keys[0], &keys[1]))
		return NULL;
	key_size = take_places(keys[0], new_places);
	if (key_size < 0 || take_places(keys[1], old_places) != key_size)
	{
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "keys have as many columns");
		return NULL;
	}
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(changes); i++)
	{
		PyObject   *change = PyList_GET_ITEM(changes, i);
		PyObject   *action = value_at(change, 0);

		if (action == NULL)
			return NULL;
		if (PyBytes_GET_SIZE(action) != 1 || PyBytes_AS_STRING(action)[0] != 'U')
			continue;
		for (int part = 0; part < key_size; part++)
		{
			PyObject   *new = value_at(change, new_places[part]);
			PyObject   *old = new == NULL ? NULL : value_at(change, old_places[part]);

			if (old == NULL)
				return NULL;
			if (PyBytes_GET_SIZE(new) != PyBytes_GET_SIZE(old) ||
				memcmp(PyBytes_AS_STRING(new), PyBytes_AS_STRING(old),
					   (size_t) PyBytes_GET_SIZE(new)) != 0)
				Py_RETURN_FALSE;
		}
	}
	Py_RETURN_TRUE;
}
