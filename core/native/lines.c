/*
 * lines.c
 *	  Changes of one table, from the lines that wal2json printed to the values that COPY takes.
 *
 * LineLayout of decoding/wal2json/layout.py does the same in Python, by a pattern.  A line that is
 * not exactly as wal2json prints it is not found here, even where the pattern would find something
 * in it.
 */
#include "lines.h"

#define LINE_HEAD "{\"action\":\""
#define COLUMNS ",\"columns\":["
#define IDENTITY ",\"identity\":["

static const char ACTIONS[] = LINE_ACTIONS;

/* Nulls as COPY has them: known by their place in memory, as a text may look the same. */
static const unsigned char NULL_TEXT[] = "\\N";

#define MARKED_NULL ((Stretch) {NULL_TEXT, NULL_TEXT + 2})

/* Go over what stands before a quote, and the quote and the comma after it. */
static bool
skip_quoted(Stretch *rest)
{
	rest->at = memchr(rest->at, '"', bytes_left(rest));
	if (rest->at == NULL)
		return false;
	return SKIP(rest, "\",");
}

/* Read what stands between quotes; "rest" is behind the first of them. */
static bool
read_text(Stretch *rest, Stretch *value)
{
	value->at = rest->at;
	for (; rest->at < rest->end && *rest->at != '"'; rest->at++)
	{
		/* Whatever follows a backslash ends no text. */
		if (*rest->at == '\\' && ++rest->at == rest->end)
			return false;
	}
	value->end = rest->at;
	return SKIP(rest, "\"");
}

/* Read a value without quotes: what stands before the brace that ends its entry. */
static bool
read_bare(Stretch *rest, Stretch *value)
{
	value->at = rest->at;
	while (rest->at < rest->end && *rest->at != '}' && *rest->at != '"')
		rest->at++;
	value->end = rest->at;
	return rest->at < rest->end && *rest->at == '}';
}

static bool
is_number(const Stretch *value)
{
	for (const unsigned char *at = value->at; at < value->end; at++)
	{
		if ((*at < '0' || *at > '9') && *at != '-')
			return false;
	}
	return true;
}

/* Whether a value without quotes is a null, as it is printed or as it is marked. */
static bool
is_null(const Stretch *value)
{
	return (bytes_left(value) == 4 && memcmp(value->at, "null", 4) == 0) ||
		(bytes_left(value) == 2 && memcmp(value->at, "\\N", 2) == 0);
}

/* Whether a value that was sent as a text can be of a kind. */
static bool
is_of_kind(const Stretch *text, char kind)
{
	switch (kind)
	{
		case BARE:
			return false;
		case NUMBER:
			return is_number(text);
		case FLOAT:
			return memchr(text->at, '}', bytes_left(text)) == NULL &&
				memchr(text->at, '\\', bytes_left(text)) == NULL;
		default:
			return true;
	}
}

/* Read a value of a kind, and the brace after it. */
static bool
read_value(Stretch *rest, char kind, Stretch *value)
{
	if (SKIP(rest, "\""))
		return read_text(rest, value) && is_of_kind(value, kind) && SKIP(rest, "}");
	if (!read_bare(rest, value))
		return false;
	rest->at++;
	if (is_null(value))
	{
		*value = MARKED_NULL;
		return true;
	}
	return kind == BARE || kind == FLOAT || (kind == NUMBER && is_number(value));
}

/* Read a list of columns behind its bracket, up to behind the one that ends it. */
static bool
read_entries(Stretch *rest, const Entries *entries, Stretch *values)
{
	Stretch		ignored;

	for (int i = 0; i < entries->count; i++)
	{
		const Entry *entry = &entries->list[i];

		if ((i > 0 && !SKIP(rest, ",")) ||
			!skip(rest, entry->prefix, entry->prefix_size) ||
			!read_value(rest, entry->kind, entry->is_captured ? values++ : &ignored))
			return false;
	}
	return SKIP(rest, "]");
}

/* Read a line; false when it is none of this layout. */
static bool
read_line(const LineReading *reading, Stretch *rest, Line *line)
{
	const char *action;

	memset(line->values, 0, (size_t) reading->value_count * sizeof(Stretch));
	if (!SKIP(rest, LINE_HEAD) || bytes_left(rest) < 1 || *rest->at == '\0')
		return false;
	action = strchr(ACTIONS, *rest->at++);
	if (action == NULL || !SKIP(rest, "\",\"xid\":") || !skip_digits(rest) ||
		!SKIP(rest, ",\"timestamp\":\"") || !skip_quoted(rest))
		return false;
	if (SKIP(rest, "\"origin\":") && (!skip_digits(rest) || !SKIP(rest, ",")))
		return false;
	if (!SKIP(rest, "\"lsn\":\"") || !skip_quoted(rest) ||
		!skip(rest, reading->table, reading->table_size))
		return false;
	line->action = (char) (action - ACTIONS);
	line->has_new = SKIP(rest, COLUMNS);
	if (line->has_new && !read_entries(rest, &reading->new, line->values))
		return false;
	line->has_old = reading->old.count > 0 && SKIP(rest, IDENTITY);
	if (line->has_old && !read_entries(rest, &reading->old, line->values + reading->new.captured))
		return false;
	return SKIP(rest, "}") && (rest->at == rest->end || *rest->at == '\n');
}

/* Get room for one more line; false when there is no memory. */
static bool
make_room(LineReading *reading)
{
	size_t		room = reading->room * 2 + 64;
	size_t		width = (size_t) reading->value_count;
	Line	   *lines;
	Stretch    *values;

	if (reading->count < reading->room)
		return true;
	lines = PyMem_Realloc(reading->lines, room * sizeof(Line));
	if (lines == NULL)
		return false;
	reading->lines = lines;
	values = PyMem_Realloc(reading->values, (room * width + 1) * sizeof(Stretch));
	if (values == NULL)
		return false;
	reading->values = values;
	reading->room = room;
	for (size_t i = 0; i < room; i++)
		lines[i].values = values + i * width;
	return true;
}

/* Find the lines of this layout; false with an exception set. */
static bool
find_all(LineReading *reading, Stretch text)
{
	while (text.at < text.end)
	{
		const unsigned char *end = memchr(text.at, '\n', bytes_left(&text));
		Stretch		rest = {text.at, end == NULL ? text.end : end};

		if (!make_room(reading))
		{
			PyErr_NoMemory();
			return false;
		}
		if (read_line(reading, &rest, &reading->lines[reading->count]))
			reading->count++;
		text.at = end == NULL ? text.end : end + 1;
	}
	return true;
}

static PyObject *
make_value(LineReading *reading, const Stretch *value)
{
	if (value->at == NULL)
		return Py_NewRef(reading->empty);
	if (value->at == NULL_TEXT)
		return Py_NewRef(reading->null);
	if (memchr(value->at, '\\', bytes_left(value)) != NULL)
		reading->has_escapes = true;
	return PyBytes_FromStringAndSize((const char *) value->at, (Py_ssize_t) bytes_left(value));
}

static PyObject *
make_change(LineReading *reading, const Line *line)
{
	PyObject   *change = PyTuple_New(1 + reading->value_count);

	if (change == NULL)
		return NULL;
	PyTuple_SET_ITEM(change, 0, Py_NewRef(reading->actions[(int) line->action]));
	for (int i = 0; i < reading->value_count; i++)
	{
		PyObject   *value = make_value(reading, &line->values[i]);

		if (value == NULL)
		{
			Py_DECREF(change);
			return NULL;
		}
		PyTuple_SET_ITEM(change, 1 + i, value);
	}
	return change;
}

/*
 * read_lines(text, table, new, old, key) -> (count, changes, has_escapes)
 *
 * The changes of a layout in a text of lines, how many lines they are, and whether a value of them
 * has a backslash.  Nulls in the text may be marked.
 * "table" is what a line says of its table; "new" and "old" are the entries of both lists as (what
 * stands before the value, kind, whether it is of use).  Where all lines are updates that leave a
 * key alone, whose places among the values are pairs in "key", those that later ones replace are
 * skipped.
 */
PyObject *
read_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
	Py_buffer	text;
	Py_ssize_t	table_size;
	PyObject   *new;
	PyObject   *old;
	PyObject   *key;
	PyObject   *changes = NULL;
	size_t		count = 0;
	LineReading reading = {0};

	if (!PyArg_ParseTuple(args, "y*y#OOO", &text, &reading.table, &table_size, &new, &old, &key))
		return NULL;
	reading.table_size = (size_t) table_size;
	if (prepare_lines(&reading, new, old, key) &&
		find_all(&reading, (Stretch) {text.buf, (const unsigned char *) text.buf + text.len}))
	{
		count = reading.count;
		if (reading.key_size == 0 || keep_latest(&reading))
			changes = PyList_New((Py_ssize_t) reading.count);
		for (size_t i = 0; changes != NULL && i < reading.count; i++)
		{
			PyObject   *change = make_change(&reading, &reading.lines[i]);

			if (change == NULL)
				Py_CLEAR(changes);
			else
				PyList_SET_ITEM(changes, (Py_ssize_t) i, change);
		}
	}
	finish_lines(&reading);
	PyBuffer_Release(&text);
	if (changes == NULL)
		return NULL;
	return Py_BuildValue("(nNO)", (Py_ssize_t) count, changes,
						 reading.has_escapes ? Py_True : Py_False);
}
