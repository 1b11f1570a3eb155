/*
 * rows.c
 *	  Changes become rows of COPY's text format.
 */
#include "bytes.h"

/* Count the bytes of a row without its end; -1 with an exception set. */
static Py_ssize_t
measure_row(PyObject *change, Py_ssize_t end, Py_ssize_t head_size)
{
	Py_ssize_t	size = head_size + end - 2;

	if (!PyTuple_Check(change) || PyTuple_GET_SIZE(change) < end)
	{
		PyErr_SetString(PyExc_TypeError, "a change is a tuple with all values of its row");
		return -1;
	}
	for (Py_ssize_t i = 1; i < end; i++)
	{
		PyObject   *value = PyTuple_GET_ITEM(change, i);

		if (!PyBytes_Check(value))
		{
			PyErr_SetString(PyExc_TypeError, "values are bytes");
			return -1;
		}
		size += PyBytes_GET_SIZE(value);
	}
	return size;
}

static char *
write_bytes(char *to, const char *from, Py_ssize_t size)
{
	memcpy(to, from, (size_t) size);
	return to + size;
}

/*
 * join_rows(changes, end, head) -> bytes
 *
 * The values of changes from the second up to, and not including, the "end"-th, with tabs between
 * them and "head" before them, a row each, newlines between the rows.
 */
PyObject *
join_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
	PyObject   *changes;
	Py_ssize_t	end;
	const char *head;
	Py_ssize_t	head_size;
	Py_ssize_t	count;
	Py_ssize_t	size = 0;
	PyObject   *result;
	char	   *to;

	if (!PyArg_ParseTuple(args, "O!ny#", &PyList_Type, &changes, &end, &head, &head_size))
		return NULL;
	count = PyList_GET_SIZE(changes);
	if (end < 2)
	{
		PyErr_SetString(PyExc_ValueError, "a row has a value");
		return NULL;
	}
	for (Py_ssize_t i = 0; i < count; i++)
	{
		Py_ssize_t	own = measure_row(PyList_GET_ITEM(changes, i), end, head_size);

		if (own < 0)
			return NULL;
		/* And the newline before it. */
		if (own > PY_SSIZE_T_MAX - size - 1)
			return PyErr_NoMemory();
		size += own + (i > 0);
	}
	result = PyBytes_FromStringAndSize(NULL, size);
	if (result == NULL)
		return NULL;
	to = PyBytes_AS_STRING(result);
	for (Py_ssize_t i = 0; i < count; i++)
	{
		PyObject   *change = PyList_GET_ITEM(changes, i);

		if (i > 0)
			*to++ = '\n';
		to = write_bytes(to, head, head_size);
		for (Py_ssize_t place = 1; place < end; place++)
		{
			PyObject   *value = PyTuple_GET_ITEM(change, place);

			if (place > 1)
				*to++ = '\t';
			to = write_bytes(to, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
		}
	}
	return result;
}
