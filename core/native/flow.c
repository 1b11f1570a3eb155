/*
 * flow.c
 *	  A Flow of receiver/flow.py becomes that of route.h, and back.
 */
#include "route.h"

static uint64_t
load_number(PyObject *from, const char *name)
{
	PyObject   *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(from, name);
	uint64_t	number = value == NULL ? 0 : PyLong_AsUnsignedLongLong(value);

	Py_XDECREF(value);
	return PyErr_Occurred() ? 0 : number;
}

/* Load an object; one of another type is an exception. */
static PyObject *
load_object(PyObject *from, const char *name, PyTypeObject *type)
{
	PyObject   *value = PyErr_Occurred() ? NULL : PyObject_GetAttrString(from, name);

	if (value != NULL && !PyObject_TypeCheck(value, type))
	{
		PyErr_Format(PyExc_TypeError, "%s is of another type", name);
		Py_CLEAR(value);
	}
	return value;
}

static bool
store_number(PyObject *to, const char *name, uint64_t number)
{
	PyObject   *value = PyLong_FromUnsignedLongLong(number);
	int			result = value == NULL ? -1 : PyObject_SetAttrString(to, name, value);

	Py_XDECREF(value);
	return result == 0;
}

/* Load all; false with an exception set.  The caller frees what there is in either case. */
bool
load_flow(Flow *flow, PyObject *from)
{
	flow->received = load_number(from, "received");
	flow->stop = load_number(from, "stop");
	flow->last_end = load_number(from, "last_end");
	flow->byte_count = load_number(from, "byte_count");
	flow->whole_bytes = load_number(from, "whole_bytes");
	flow->limit_bytes = load_number(from, "limit_bytes");
	flow->header_bytes = load_number(from, "header_bytes");
	flow->lsn_at = load_number(from, "lsn_at");
	flow->key_at = load_number(from, "key_at");
	flow->tag = (char) load_number(from, "tag");
	flow->is_in_transaction = load_number(from, "is_in_transaction") != 0;
	flow->is_alone = load_number(from, "is_alone") != 0;
	flow->is_json = load_number(from, "is_json") != 0;
	flow->begin = load_object(from, "begin", &PyBytes_Type);
	flow->begins = load_object(from, "begins", &PyList_Type);
	flow->plain = load_object(from, "plain", &PyDict_Type);
	flow->given = load_object(from, "known", &PyDict_Type);
	flow->known = flow->given;
	if (!PyErr_Occurred() && flow->lsn_at + 8 > flow->header_bytes)
		PyErr_SetString(PyExc_ValueError, "a position stands before its message");
	return !PyErr_Occurred();
}

/* Store what a call may have changed; false with an exception set. */
bool
store_flow(const Flow *flow, PyObject *to)
{
	return store_number(to, "received", flow->received) &&
		store_number(to, "last_end", flow->last_end) &&
		store_number(to, "byte_count", flow->byte_count) &&
		store_number(to, "whole_bytes", flow->whole_bytes) &&
		store_number(to, "key_at", flow->key_at) &&
		PyObject_SetAttrString(to, "is_in_transaction",
							   flow->is_in_transaction ? Py_True : Py_False) == 0 &&
		PyObject_SetAttrString(to, "begin", flow->begin) == 0;
}

void
free_flow(Flow *flow)
{
	Py_XDECREF(flow->begin);
	Py_XDECREF(flow->begins);
	Py_XDECREF(flow->plain);
	Py_XDECREF(flow->given);
}
