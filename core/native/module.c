/*
 * module.c
 *	  The module pgrepl.native._native: what it has, and nothing else.
 */
#include "bytes.h"

/* Must be that of __init__.py: a module of another version is not used. */
#define NATIVE_VERSION 5

uint64_t	hash_seed;

static PyMethodDef methods[] = {
	{"deal", deal, METH_VARARGS,
	"deal(changes, places, count) -> [changes, ...]"},
	{"expand", expand, METH_O,
	"expand(payload) -> lines"},
	{"group_changes", group_changes, METH_VARARGS,
	"group_changes(payload, change_count) -> [(relation, places), ...]"},
	{"has_fixed", has_fixed, METH_VARARGS,
	"has_fixed(changes, new, old) -> bool"},
	{"join_rows", join_rows, METH_VARARGS,
	"join_rows(changes, end, head) -> rows"},
	{"last_updates", last_updates, METH_VARARGS,
	"last_updates(pieces, size, key_size) -> [places, ...] or None"},
	{"read_changes", read_changes, METH_VARARGS,
	"read_changes(payload, places, size, new_places, old_places) -> (changes, is_mixed)"},
	{"read_lines", read_lines, METH_VARARGS,
	"read_lines(text, table, new, old, key) -> (count, changes, has_escapes)"},
	{"route", route, METH_VARARGS,
	"route(flow, frames, wanted_bytes, frame_bytes) -> (status, frame, count, bytes)"},
	{"shorten", shorten, METH_O,
	"shorten(lines) -> payload or None"},
	{NULL, NULL, 0, NULL}
};

static int
module_exec(PyObject *module)
{
	PyObject   *word = PyUnicode_FromString("pgrepl");

	if (word == NULL)
		return -1;
	/* Python's hash of a text is random by default. */
	hash_seed = (uint64_t) PyObject_Hash(word);
	Py_DECREF(word);
	return PyModule_AddIntConstant(module, "VERSION", NATIVE_VERSION);
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, module_exec},
	{0, NULL}
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "pgrepl.native._native",
	.m_doc = "The loops that every message and every row goes through.",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
	return PyModuleDef_Init(&definition);
}
