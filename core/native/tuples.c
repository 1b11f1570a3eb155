/*
 * tuples.c
 *	  Changes of one table, from the bytes that pgoutput sent to the values that COPY takes.
 *
 * TupleChanges of decoding/pgoutput/table_changes.py does the same in Python, and is what this
 * has to be equal to.
 */
#include "tuples.h"

static const char ACTIONS[] = "IUD";

static void *
unreadable(const char *what)
{
	PyErr_SetString(PyExc_ValueError, what);
	return NULL;
}

/* Read a tuple; false with an exception set when it is none of this many columns. */
bool
read_tuple(Stretch *rest, Field *fields, int size)
{
	if (bytes_left(rest) < 2)
		return unreadable("a change is too short") != NULL;
	if (read_uint16(rest->at) != size)
		return unreadable("a change has another number of columns than its table") != NULL;
	rest->at += 2;
	for (int i = 0; i < size; i++)
	{
		Field	   *field = &fields[i];

		if (bytes_left(rest) < 1)
			return unreadable("a change is too short") != NULL;
		field->kind = *rest->at++;
		field->text = NULL;
		field->size = 0;
		if (field->kind == 'n' || field->kind == 'u')
			continue;
		if (field->kind != 't')
			return unreadable("a value in a change cannot be read") != NULL;
		if (bytes_left(rest) < 4)
			return unreadable("a change is too short") != NULL;
		field->size = read_uint32(rest->at);
		rest->at += 4;
		if (bytes_left(rest) < field->size)
			return unreadable("a change is too short") != NULL;
		field->text = rest->at;
		rest->at += field->size;
	}
	return true;
}

/* What follows the backslash where COPY's text format has to escape a character. */
static const char ESCAPES[256] = {
	['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
};

/* Return a value as COPY takes it. */
static PyObject *
copy_value(const Reading *reading, const Field *field)
{
	Py_ssize_t	escapes = 0;
	PyObject   *value;
	char	   *to;

	if (field->text == NULL)
		return Py_NewRef(reading->null);
	for (uint32_t i = 0; i < field->size; i++)
		escapes += ESCAPES[field->text[i]] != '\0';
	if (escapes == 0)
		return PyBytes_FromStringAndSize((const char *) field->text, field->size);
	value = PyBytes_FromStringAndSize(NULL, (Py_ssize_t) field->size + escapes);
	if (value == NULL)
		return NULL;
	to = PyBytes_AS_STRING(value);
	for (uint32_t i = 0; i < field->size; i++)
	{
		char		escape = ESCAPES[field->text[i]];

		if (escape != '\0')
			*to++ = '\\';
		*to++ = escape != '\0' ? escape : (char) field->text[i];
	}
	return value;
}

/*
 * Read a change; it is itself, as bytes, when it leaves values open that are unchanged and stored
 * out of line.
 */
static PyObject *
read_change(Reading *reading, Place place)
{
	const unsigned char *message = reading->payload + place.at;
	Stretch		rest = {message + 6, message + place.size};
	const Field *identity = reading->new_fields;
	const char *action;
	PyObject   *change;
	Py_ssize_t	filled = 0;
	bool		has_old;
	bool		has_new;

	if (place.size < 6)
		return unreadable("a change is too short");
	action = message[0] == '\0' ? NULL : strchr(ACTIONS, message[0]);
	if (action == NULL)
		return unreadable("a change of an unknown kind");
	has_old = message[5] == 'K' || message[5] == 'O';
	has_new = *action != 'D';
	if ((!has_old && message[5] != 'N') || (*action == 'I' && has_old) || (*action == 'D' && !has_old))
		return unreadable("a change does not say which row it changes");
	if (has_old)
	{
		identity = reading->old_fields;
		if (!read_tuple(&rest, reading->old_fields, reading->size))
			return NULL;
		if (has_new)
		{
			if (bytes_left(&rest) < 1 || *rest.at++ != 'N')
				return unreadable("a change has no new row");
		}
	}
	if (has_new && !read_tuple(&rest, reading->new_fields, reading->size))
		return NULL;
	if (rest.at != rest.end)
		return unreadable("a change is too long");
	for (int i = 0; has_new && i < reading->size; i++)
	{
		if (reading->new_fields[i].kind == 'u')
			return PyBytes_FromStringAndSize((const char *) message, place.size);
	}
	change = PyTuple_New(1 + reading->new_count + (*action == 'I' ? 0 : reading->old_count));
	if (change == NULL)
		return NULL;
	PyTuple_SET_ITEM(change, filled++, Py_NewRef(reading->actions[action - ACTIONS]));
	for (int i = 0; i < reading->new_count; i++)
	{
		PyObject   *value = has_new
			? copy_value(reading, &reading->new_fields[reading->new_places[i]])
			: Py_NewRef(reading->empty);

		if (value == NULL)
			goto failed;
		PyTuple_SET_ITEM(change, filled++, value);
	}
	for (int i = 0; *action != 'I' && i < reading->old_count; i++)
	{
		const Field *field = &identity[reading->old_places[i]];
		PyObject   *value;

		if (field->kind == 'u')
		{
			unreadable("a change does not say which row it changes");
			goto failed;
		}
		value = copy_value(reading, field);
		if (value == NULL)
			goto failed;
		PyTuple_SET_ITEM(change, filled++, value);
	}
	return change;

failed:
	Py_DECREF(change);
	return NULL;
}

/* Take a sequence of columns' places; returns how many, -1 with an exception set. */
static int
take_places(PyObject *sequence, int *places, int size)
{
	PyObject   *list = PySequence_Fast(sequence, "places are a sequence");
	Py_ssize_t	count;

	if (list == NULL)
		return -1;
	count = PySequence_Fast_GET_SIZE(list);
	for (Py_ssize_t i = 0; i < count; i++)
	{
		long		place = PyLong_AsLong(PySequence_Fast_GET_ITEM(list, i));

		if (i >= size || place < 0 || place >= size)
		{
			if (!PyErr_Occurred())
				PyErr_SetString(PyExc_IndexError, "there is no such column");
			count = -1;
			break;
		}
		places[i] = (int) place;
	}
	Py_DECREF(list);
	return (int) count;
}

/* Read all changes; the list of them, and whether some are bytes. */
static PyObject *
read_all(Reading *reading)
{
	size_t		count = reading->count;
	PyObject   *changes = PyList_New((Py_ssize_t) count);
	bool		is_mixed = false;

	for (size_t i = 0; changes != NULL && i < count; i++)
	{
		PyObject   *change = read_change(reading, place_of(reading->places, i));

		if (change == NULL)
			Py_CLEAR(changes);
		else
		{
			is_mixed |= !PyTuple_CheckExact(change);
			PyList_SET_ITEM(changes, (Py_ssize_t) i, change);
		}
	}
	return changes == NULL ? NULL : Py_BuildValue("(NO)", changes, is_mixed ? Py_True : Py_False);
}

/* Get what the changes are made of; false with an exception set. */
static bool
prepare(Reading *reading, PyObject *new_places, PyObject *old_places)
{
	size_t		room = (size_t) reading->size + 1;

	reading->new_places = PyMem_Malloc(2 * room * sizeof(int));
	reading->new_fields = PyMem_Malloc(2 * room * sizeof(Field));
	if (reading->new_places == NULL || reading->new_fields == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	reading->old_places = reading->new_places + room;
	reading->old_fields = reading->new_fields + room;
	reading->new_count = take_places(new_places, reading->new_places, reading->size);
	reading->old_count = take_places(old_places, reading->old_places, reading->size);
	reading->null = PyBytes_FromString("\\N");
	reading->empty = PyBytes_FromString("");
	for (int i = 0; i < 3; i++)
		reading->actions[i] = PyBytes_FromStringAndSize(&ACTIONS[i], 1);
	return !PyErr_Occurred();
}

static void
finish(Reading *reading)
{
	PyMem_Free(reading->new_places);
	PyMem_Free(reading->new_fields);
	Py_XDECREF(reading->null);
	Py_XDECREF(reading->empty);
	for (int i = 0; i < 3; i++)
		Py_XDECREF(reading->actions[i]);
}

/* Whether all that is asked for is there; false with an exception set. */
static bool
check(const Reading *reading, size_t payload_size)
{
	if (reading->size < 0 || reading->size > MAX_COLUMNS)
	{
		PyErr_SetString(PyExc_IndexError, "there is no such column");
		return false;
	}
	for (size_t i = 0; i < reading->count; i++)
	{
		Place		place = place_of(reading->places, i);

		if ((uint64_t) place.at + place.size > payload_size)
		{
			PyErr_SetString(PyExc_IndexError, "there is no such message");
			return false;
		}
	}
	return true;
}

/*
 * read_changes(payload, places, size, new_places, old_places) -> (changes, is_mixed)
 *
 * "places" is what group_changes() has found; "size" the number of the table's columns, of which
 * new and old row have those at new_places and old_places in a change.
 */
PyObject *
read_changes(PyObject *Py_UNUSED(module), PyObject *args)
{
	Py_buffer	payload;
	Py_buffer	places;
	PyObject   *new_places;
	PyObject   *old_places;
	PyObject   *result = NULL;
	Reading		reading = {0};

	if (!PyArg_ParseTuple(args, "y*y*iOO", &payload, &places, &reading.size, &new_places,
						  &old_places))
		return NULL;
	reading.payload = payload.buf;
	reading.places = places.buf;
	reading.count = (size_t) places.len / sizeof(Place);
	if (check(&reading, (size_t) payload.len) && prepare(&reading, new_places, old_places))
		result = read_all(&reading);
	finish(&reading);
	PyBuffer_Release(&payload);
	PyBuffer_Release(&places);
	return result;
}
