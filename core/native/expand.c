/*
 * expand.c
 *	  Lines of wal2json, with what they have in common.
 *
 * expand() of decoding/wal2json/short.py does the same in Python, and is what this has to be equal
 * to.
 */
#include "short.h"

/* No number has more. */
#define MAX_DIGITS 12

typedef struct Lines
{
	char	   *data;
	size_t		size;
	size_t		room;
} Lines;

/* Add a pattern that is made of pieces; false with an exception set. */
bool
add_pattern(Patterns *patterns, const Stretch *pieces, int value_count)
{
	Pattern    *pattern = &patterns->list[patterns->count];
	size_t		bytes = ((size_t) value_count + 1) * sizeof(Stretch);

	pattern->pieces = PyMem_Malloc(bytes);
	if (pattern->pieces == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	memcpy(pattern->pieces, pieces, bytes);
	pattern->value_count = value_count;
	pattern->is_begin = bytes_left(&pieces[0]) >= sizeof(BEGIN_LINE) - 1 &&
		memcmp(pieces[0].at, BEGIN_LINE, sizeof(BEGIN_LINE) - 1) == 0;
	patterns->count++;
	return true;
}

/* Remember the values of a begin line: those of its transaction are compared with them. */
void
remember_begin(Patterns *patterns, const Pattern *pattern, const Stretch *values)
{
	if (!pattern->is_begin)
		return;
	patterns->begin_count = pattern->value_count < MAX_BEGIN ? pattern->value_count : MAX_BEGIN;
	memcpy(patterns->begin, values, (size_t) patterns->begin_count * sizeof(Stretch));
}

void
free_patterns(Patterns *patterns)
{
	for (int i = 0; i < patterns->count; i++)
		PyMem_Free(patterns->list[i].pieces);
	PyMem_Free(patterns);
}

static bool
unreadable(const char *what)
{
	PyErr_SetString(PyExc_ValueError, what);
	return false;
}

/* Cut a record at its tabs; returns how many pieces there are, 0 when they are too many. */
static int
cut_record(Stretch record, Stretch *pieces)
{
	int			count = 0;

	for (;;)
	{
		const unsigned char *tab;

		if (count > MAX_VALUES)
			return 0;
		tab = memchr(record.at, VALUE_MARK, bytes_left(&record));
		pieces[count].at = record.at;
		pieces[count++].end = tab == NULL ? record.end : tab;
		if (tab == NULL)
			return count;
		record.at = tab + 1;
	}
}

/* Read a number that takes up all there is; false when it is none, or too big. */
static bool
read_number(Stretch text, size_t limit, size_t *number)
{
	*number = 0;
	if (bytes_left(&text) == 0 || bytes_left(&text) > MAX_DIGITS)
		return false;
	for (; text.at < text.end; text.at++)
	{
		if (*text.at < '0' || *text.at > '9')
			return false;
		*number = *number * 10 + (size_t) (*text.at - '0');
	}
	return *number <= limit;
}

static bool
put(Lines *lines, const Stretch *text)
{
	size_t		size = bytes_left(text);

	if (lines->room - lines->size < size)
		return unreadable("lines are longer than they should be");
	memcpy(lines->data + lines->size, text->at, size);
	lines->size += size;
	return true;
}

/* Write a line of a pattern; "pieces" are its number and its values. */
static bool
put_line(Lines *lines, Patterns *patterns, Stretch *pieces, int count)
{
	const Pattern *pattern;
	Stretch    *values = pieces + 1;
	size_t		number;

	if (!read_number(pieces[0], MAX_PATTERNS, &number) || number >= (size_t) patterns->count)
		return unreadable("a line has no pattern");
	pattern = &patterns->list[number];
	if (pattern->value_count != count - 1)
		return unreadable("a line has not the values of its pattern");
	for (int i = 0; i < pattern->value_count; i++)
	{
		if (bytes_left(&values[i]) == 0)
		{
			if (i >= patterns->begin_count)
				return unreadable("a value is missing");
			values[i] = patterns->begin[i];
		}
		if (!put(lines, &pattern->pieces[i]) || !put(lines, &values[i]))
			return false;
	}
	remember_begin(patterns, pattern, values);
	return put(lines, &pattern->pieces[pattern->value_count]);
}

/* Take a record that follows the first one; false with an exception set. */
static bool
take_record(Lines *lines, Patterns *patterns, Stretch record, Stretch *pieces)
{
	static const unsigned char newline[] = "\n";
	char		mark = bytes_left(&record) > 0 ? (char) *record.at : '\0';
	int			count;

	if (mark == PATTERN_MARK)
	{
		record.at++;
		count = cut_record(record, pieces);
		if (count < 2 || patterns->count == MAX_PATTERNS)
			return unreadable("a pattern cannot be read");
		return add_pattern(patterns, pieces, count - 1);
	}
	if (lines->size > 0 && !put(lines, &(Stretch) {newline, newline + 1}))
		return false;
	if (mark == LINE_MARK)
		return put(lines, &record);
	count = cut_record(record, pieces);
	return count == 0 ? unreadable("there are too many values")
		: put_line(lines, patterns, pieces, count);
}

/* Go over a record and the newline after it; false when there is none. */
static bool
next_record(Stretch *rest, Stretch *record)
{
	const unsigned char *end;

	if (rest->at == NULL)
		return false;
	end = memchr(rest->at, '\n', bytes_left(rest));
	record->at = rest->at;
	record->end = end == NULL ? rest->end : end;
	rest->at = end == NULL ? NULL : end + 1;
	return true;
}

/* Write all lines into what has room for exactly them; false with an exception set. */
static bool
put_all(Lines *lines, Stretch rest)
{
	Patterns   *patterns = PyMem_Calloc(1, sizeof(Patterns));
	Stretch    *pieces = PyMem_Malloc((MAX_VALUES + 1) * sizeof(Stretch));
	Stretch		record;
	bool		is_done = patterns != NULL && pieces != NULL;

	if (!is_done)
		PyErr_NoMemory();
	while (is_done && next_record(&rest, &record))
		is_done = take_record(lines, patterns, record, pieces);
	if (is_done && lines->size != lines->room)
		is_done = unreadable("lines are shorter than they should be");
	if (patterns != NULL)
		free_patterns(patterns);
	PyMem_Free(pieces);
	return is_done;
}

/*
 * expand(payload) -> bytes
 *
 * The lines that shorten() was given, joined by newlines.
 */
PyObject *
expand(PyObject *Py_UNUSED(module), PyObject *payload)
{
	Stretch		rest;
	Stretch		record = {0};
	Lines		lines = {0};
	PyObject   *result = NULL;

	if (!PyBytes_Check(payload))
	{
		PyErr_SetString(PyExc_TypeError, "a payload is bytes");
		return NULL;
	}
	rest.at = (const unsigned char *) PyBytes_AS_STRING(payload);
	rest.end = rest.at + PyBytes_GET_SIZE(payload);
	next_record(&rest, &record);
	if (bytes_left(&record) < 2 || *record.at++ != SIZE_MARK ||
		!read_number(record, MAX_LINES_BYTES, &lines.room))
	{
		unreadable("a payload does not say its size");
		return NULL;
	}
	result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t) lines.room);
	if (result == NULL)
		return NULL;
	lines.data = PyBytes_AS_STRING(result);
	if (rest.at != NULL && !put_all(&lines, rest))
		Py_CLEAR(result);
	else if (rest.at == NULL && lines.room != 0)
	{
		unreadable("lines are shorter than they should be");
		Py_CLEAR(result);
	}
	return result;
}
