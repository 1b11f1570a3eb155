/*
 * shorten.c
 *	  What lines of wal2json have in common is written once.
 *
 * expand() of decoding/wal2json/short.py gives back the lines, byte by byte; nothing here has to
 * understand them.  Whatever is cut out of a line is put in again at the same place.
 */
#include "short.h"

/* Bytes that a text, or a value without quotes, does not go over without a look. */
#define ENDS_TEXT 1
#define ENDS_BARE 2

static const unsigned char ENDS[256] = {
	/* Control characters are escaped in a line: there are none. */
	[0] = 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
	3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
	['"'] = 3, ['\\'] = 3, ['{'] = ENDS_BARE, ['}'] = ENDS_BARE, ['['] = ENDS_BARE,
	[']'] = ENDS_BARE, [','] = ENDS_BARE
};

/* Fields whose values are cut out. */
static const char *const FIELDS[] = {"value", "xid", "timestamp", "lsn", "nextlsn", "origin"};

typedef struct Output
{
	char	   *data;
	size_t		size;
	size_t		room;
} Output;

/* Read a text with its quotes; "rest" stands at the first of them. */
static bool
read_quoted(Stretch *rest)
{
	rest->at++;
	for (; rest->at < rest->end; rest->at++)
	{
		if (!(ENDS[*rest->at] & ENDS_TEXT))
			continue;
		if (*rest->at == '"')
		{
			rest->at++;
			return true;
		}
		/* Whatever follows a backslash ends no text. */
		if (*rest->at != '\\' || ++rest->at == rest->end || *rest->at < ' ')
			return false;
	}
	return false;
}

/* Read a value, with its quotes if it has them. */
static bool
read_any(Stretch *rest, Stretch *value)
{
	value->at = rest->at;
	if (rest->at < rest->end && *rest->at == '"')
	{
		if (!read_quoted(rest))
			return false;
	}
	else
	{
		while (rest->at < rest->end && !(ENDS[*rest->at] & ENDS_BARE))
			rest->at++;
	}
	value->end = rest->at;
	return value->end > value->at;
}

/* Whether a text in its quotes names a field whose values are cut out. */
static bool
is_field(const Stretch *name)
{
	size_t		size = bytes_left(name) - 2;

	for (size_t i = 0; i < sizeof(FIELDS) / sizeof(FIELDS[0]); i++)
	{
		if (strlen(FIELDS[i]) == size && memcmp(name->at + 1, FIELDS[i], size) == 0)
			return true;
	}
	return false;
}

/* Read a line by a pattern; false when it is another line. */
static bool
read_by(const Pattern *pattern, Stretch rest, Stretch *values)
{
	const Stretch *piece = pattern->pieces;

	for (int i = 0; i < pattern->value_count; i++, piece++)
	{
		if (!skip(&rest, (const char *) piece->at, bytes_left(piece)) ||
			!read_any(&rest, &values[i]))
			return false;
	}
	return skip(&rest, (const char *) piece->at, bytes_left(piece)) && rest.at == rest.end;
}

/* Cut the values out of a line; returns how many, -1 when it stays as it is. */
static int
cut_line(Stretch rest, Stretch *pieces, Stretch *values)
{
	int			count = 0;

	pieces[0].at = rest.at;
	while (rest.at < rest.end)
	{
		Stretch		text = rest;

		if (*rest.at < ' ')
			return -1;
		if (*rest.at != '"')
		{
			rest.at++;
			continue;
		}
		if (!read_quoted(&rest))
			return -1;
		text.end = rest.at;
		if (!SKIP(&rest, ":") || !is_field(&text))
			continue;
		if (count == MAX_VALUES)
			return -1;
		pieces[count].end = rest.at;
		if (!read_any(&rest, &values[count]))
			return -1;
		pieces[++count].at = rest.at;
	}
	pieces[count].end = rest.at;
	return count;
}

/* Get room for some bytes; false when there is no memory. */
static bool
make_room(Output *output, size_t size)
{
	char	   *data;

	if (output->room - output->size >= size)
		return true;
	output->room = output->room * 2 + size;
	data = PyMem_Realloc(output->data, output->room);
	if (data == NULL)
		return false;
	output->data = data;
	return true;
}

static void
put(Output *output, const void *data, size_t size)
{
	memcpy(output->data + output->size, data, size);
	output->size += size;
}

static void
put_byte(Output *output, char byte)
{
	output->data[output->size++] = byte;
}

/* Write a pattern; what is written is never more than its line and two bytes. */
static void
put_pattern(Output *output, const Pattern *pattern)
{
	put_byte(output, '\n');
	put_byte(output, PATTERN_MARK);
	for (int i = 0; i <= pattern->value_count; i++)
	{
		if (i > 0)
			put_byte(output, VALUE_MARK);
		put(output, pattern->pieces[i].at, bytes_left(&pattern->pieces[i]));
	}
}

static bool
is_equal(const Stretch *one, const Stretch *other)
{
	return bytes_left(one) == bytes_left(other) &&
		memcmp(one->at, other->at, bytes_left(one)) == 0;
}

/* Write the values of a line; a pattern's number takes less than what a value stood after. */
static void
put_values(Output *output, Patterns *patterns, int number, const Stretch *values)
{
	const Pattern *pattern = &patterns->list[number];
	char		digits[16];

	put_byte(output, '\n');
	put(output, digits, (size_t) snprintf(digits, sizeof(digits), "%d", number));
	for (int i = 0; i < pattern->value_count; i++)
	{
		put_byte(output, VALUE_MARK);
		if (pattern->is_begin || i >= patterns->begin_count ||
			!is_equal(&values[i], &patterns->begin[i]))
			put(output, values[i].at, bytes_left(&values[i]));
	}
	remember_begin(patterns, pattern, values);
}

/* Find the pattern of a line, or make one; -1 when it has none. */
static int
find_pattern(Patterns *patterns, int expected, Stretch line, Stretch *pieces, Stretch *values)
{
	int			count;

	if (expected < patterns->count && read_by(&patterns->list[expected], line, values))
		return expected;
	for (int i = 0; i < patterns->count; i++)
	{
		if (i != expected && read_by(&patterns->list[i], line, values))
			return i;
	}
	if (patterns->count == MAX_PATTERNS)
		return -1;
	count = cut_line(line, pieces, values);
	if (count <= 0 || !add_pattern(patterns, pieces, count))
		return -1;
	return patterns->count - 1;
}

/* Write all lines; false, maybe with an exception set, when they have to stay as they are. */
static bool
put_lines(Output *output, Patterns *patterns, PyObject *lines, Stretch *pieces, Stretch *values)
{
	/* Which pattern came after each one last. */
	int			next[MAX_PATTERNS + 1] = {0};
	int			last = MAX_PATTERNS;

	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lines); i++)
	{
		PyObject   *object = PyList_GET_ITEM(lines, i);
		Stretch		line;
		int			known = patterns->count;
		int			number;

		if (!PyBytes_Check(object))
		{
			PyErr_SetString(PyExc_TypeError, "lines are bytes");
			return false;
		}
		line.at = (const unsigned char *) PyBytes_AS_STRING(object);
		line.end = line.at + PyBytes_GET_SIZE(object);
		if (!make_room(output, 2 * bytes_left(&line) + 32))
		{
			PyErr_NoMemory();
			return false;
		}
		number = find_pattern(patterns, next[last], line, pieces, values);
		if (number < 0)
		{
			if (PyErr_Occurred() || bytes_left(&line) == 0 || *line.at != LINE_MARK ||
				memchr(line.at, '\n', bytes_left(&line)) != NULL)
				return false;
			put_byte(output, '\n');
			put(output, line.at, bytes_left(&line));
			last = MAX_PATTERNS;
			continue;
		}
		if (patterns->count > known)
			put_pattern(output, &patterns->list[number]);
		put_values(output, patterns, number, values);
		next[last] = number;
		last = number;
	}
	return true;
}

/* The bytes of lines joined by newlines; -1 with an exception set. */
static Py_ssize_t
measure_lines(PyObject *lines)
{
	Py_ssize_t	size = PyList_GET_SIZE(lines) - 1;

	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(lines); i++)
	{
		Py_ssize_t	own = PyObject_Length(PyList_GET_ITEM(lines, i));

		if (own < 0)
			return -1;
		if (own > PY_SSIZE_T_MAX - size)
		{
			PyErr_NoMemory();
			return -1;
		}
		size += own;
	}
	return size;
}

/*
 * shorten(lines) -> bytes or None
 *
 * Lines without what they have in common; None when they have to stay as they are.
 */
PyObject *
shorten(PyObject *Py_UNUSED(module), PyObject *lines)
{
	Output		output = {0};
	Patterns   *patterns;
	Stretch    *pieces;
	Stretch    *values;
	Py_ssize_t	size;
	PyObject   *result = NULL;

	if (!PyList_Check(lines))
	{
		PyErr_SetString(PyExc_TypeError, "lines are a list");
		return NULL;
	}
	if (PyList_GET_SIZE(lines) == 0)
		return Py_NewRef(Py_None);
	size = measure_lines(lines);
	if (size < 0)
		return NULL;
	patterns = PyMem_Calloc(1, sizeof(Patterns));
	pieces = PyMem_Malloc((MAX_VALUES + 1) * sizeof(Stretch));
	values = PyMem_Malloc(MAX_VALUES * sizeof(Stretch));
	if (patterns == NULL || pieces == NULL || values == NULL || !make_room(&output, 32))
		PyErr_NoMemory();
	else
	{
		output.size = (size_t) snprintf(output.data, 32, "%c%zd", SIZE_MARK, size);
		if (put_lines(&output, patterns, lines, pieces, values))
			result = PyBytes_FromStringAndSize(output.data, (Py_ssize_t) output.size);
	}
	if (patterns != NULL)
		free_patterns(patterns);
	PyMem_Free(pieces);
	PyMem_Free(values);
	PyMem_Free(output.data);
	if (result == NULL && !PyErr_Occurred())
		return Py_NewRef(Py_None);
	return result;
}
