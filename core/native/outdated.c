/*
 * outdated.c
 *	  Updates of a row that a later update replaces, and that need not be read.
 *
 * TupleChanges of decoding/pgoutput/table_changes.py does the same in Python.
 */
#include "tuples.h"

/* Changes of a table in one payload. */
typedef struct Piece
{
	Py_buffer	payload;
	Py_buffer	places;
} Piece;

typedef struct Update
{
	Stretch		key;			/* with what stands before each of its columns */
	const unsigned char *end;	/* of the message */
	bool		is_outdated;
} Update;

typedef struct Updates
{
	int			size;			/* columns of the table */
	int			key_size;		/* first columns that tell rows apart */
	Piece	   *pieces;
	Py_ssize_t	piece_count;
	Update	   *list;
	size_t		count;
	Field	   *fields;			/* of the tuple in hand */
} Updates;

/*
 * Find the key of an update that leaves it alone.  False when the change is another one, or
 * corrupted: then all of them are read.
 */
static bool
find_key(const Updates *updates, const unsigned char *message, size_t size, Stretch *key)
{
	Stretch		rest = {message + 8, message + size};

	if (size < 8 || message[0] != 'U' || message[5] != 'N' ||
		read_uint16(message + 6) != updates->size)
		return false;
	key->at = rest.at;
	for (int i = 0; i < updates->key_size; i++)
	{
		uint32_t	value_size;

		/* A key is never null; one that is stored out of line is not sent. */
		if (bytes_left(&rest) < 5 || rest.at[0] != 't')
			return false;
		value_size = read_uint32(rest.at + 1);
		rest.at += 5;
		if (bytes_left(&rest) < value_size)
			return false;
		rest.at += value_size;
	}
	key->end = rest.at;
	return true;
}

/* Whether an update has the whole new row; one that cannot be read has not. */
static bool
is_whole(const Updates *updates, const Update *update)
{
	/* The number of columns stands before the key. */
	Stretch		rest = {update->key.at - 2, update->end};

	if (!read_tuple(&rest, updates->fields, updates->size))
	{
		PyErr_Clear();
		return false;
	}
	for (int i = 0; i < updates->size; i++)
	{
		if (updates->fields[i].kind == 'u')
			return false;
	}
	return true;
}

static inline size_t
place_count(const Piece *piece)
{
	return (size_t) piece->places.len / sizeof(Place);
}

/* Find all of them; false when one is another change, or with an exception set. */
static bool
find_updates(Updates *updates)
{
	size_t		found = 0;

	for (Py_ssize_t i = 0; i < updates->piece_count; i++)
		updates->count += place_count(&updates->pieces[i]);
	if (updates->count == 0 || updates->count >= UINT32_MAX)
		return false;
	updates->list = PyMem_Calloc(updates->count, sizeof(Update));
	updates->fields = PyMem_Malloc((size_t) updates->size * sizeof(Field));
	if (updates->list == NULL || updates->fields == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = 0; i < updates->piece_count; i++)
	{
		const Piece *piece = &updates->pieces[i];

		for (size_t number = 0; number < place_count(piece); number++)
		{
			Place		place = place_of(piece->places.buf, number);
			Update	   *update = &updates->list[found++];
			const unsigned char *message;

			if ((uint64_t) place.at + place.size > (uint64_t) piece->payload.len)
			{
				PyErr_SetString(PyExc_IndexError, "there is no such message");
				return false;
			}
			message = (const unsigned char *) piece->payload.buf + place.at;
			if (!find_key(updates, message, place.size, &update->key))
				return false;
			update->end = message + place.size;
		}
	}
	return true;
}

/*
 * Mark those that a later one of the same row replaces; false when one that is left has not the
 * whole row, or with an exception set.
 */
static bool
mark_outdated(Updates *updates)
{
	size_t		room = 16;
	uint32_t   *table;

	while (room < updates->count * 2)
		room *= 2;
	/* Numbers in the list, each plus one; 0: free. */
	table = PyMem_Calloc(room, sizeof(uint32_t));
	if (table == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	for (size_t i = 0; i < updates->count; i++)
	{
		const Stretch *key = &updates->list[i].key;
		size_t		at = hash_bytes(key->at, bytes_left(key)) & (room - 1);

		while (table[at] != 0)
		{
			const Stretch *other = &updates->list[table[at] - 1].key;

			if (bytes_left(other) == bytes_left(key) &&
				memcmp(other->at, key->at, bytes_left(key)) == 0)
				break;
			at = (at + 1) & (room - 1);
		}
		if (table[at] != 0)
			updates->list[table[at] - 1].is_outdated = true;
		table[at] = (uint32_t) (i + 1);
	}
	PyMem_Free(table);
	for (size_t i = 0; i < updates->count; i++)
	{
		if (!updates->list[i].is_outdated && !is_whole(updates, &updates->list[i]))
			return false;
	}
	return true;
}

/* Return the places of each piece that are left. */
static PyObject *
places_left(const Updates *updates)
{
	PyObject   *result = PyList_New(updates->piece_count);
	const Update *update = updates->list;

	for (Py_ssize_t i = 0; result != NULL && i < updates->piece_count; i++)
	{
		const Piece *piece = &updates->pieces[i];
		size_t		count = place_count(piece);
		size_t		left = 0;
		PyObject   *places;
		char	   *to;

		for (size_t number = 0; number < count; number++)
			left += !update[number].is_outdated;
		places = PyBytes_FromStringAndSize(NULL, (Py_ssize_t) (left * sizeof(Place)));
		if (places == NULL)
		{
			Py_CLEAR(result);
			break;
		}
		to = PyBytes_AS_STRING(places);
		for (size_t number = 0; number < count; number++, update++)
		{
			Place		place = place_of(piece->places.buf, number);

			if (update->is_outdated)
				continue;
			memcpy(to, &place, sizeof(Place));
			to += sizeof(Place);
		}
		PyList_SET_ITEM(result, i, places);
	}
	return result;
}

/* Take payloads and places; false with an exception set. */
static bool
take_pieces(Updates *updates, PyObject *list)
{
	Py_ssize_t	count = PyList_GET_SIZE(list);

	if (updates->size < 1 || updates->size > MAX_COLUMNS ||
		updates->key_size < 1 || updates->key_size > updates->size)
	{
		PyErr_SetString(PyExc_IndexError, "there is no such column");
		return false;
	}
	updates->pieces = PyMem_Calloc((size_t) count + 1, sizeof(Piece));
	if (updates->pieces == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	while (updates->piece_count < count)
	{
		PyObject   *item = PyList_GET_ITEM(list, updates->piece_count);
		Piece	   *piece = &updates->pieces[updates->piece_count];

		if (!PyTuple_Check(item))
		{
			PyErr_SetString(PyExc_TypeError, "a piece is a payload and places");
			return false;
		}
		if (!PyArg_ParseTuple(item, "y*y*", &piece->payload, &piece->places))
			return false;
		updates->piece_count++;
	}
	return true;
}

/*
 * last_updates(pieces, size, key_size) -> [places, ...] or None
 *
 * Of changes of a table, in several payloads one after the other, the last update of each row, when
 * all are updates that leave alone the first "key_size" of "size" columns, which tell rows apart:
 * those before need not even be read, as the last one has the whole row.  None: all are to be read.
 */
PyObject *
last_updates(PyObject *Py_UNUSED(module), PyObject *args)
{
	PyObject   *list;
	Updates		updates = {0};
	PyObject   *result = NULL;

	if (!PyArg_ParseTuple(args, "O!ii", &PyList_Type, &list, &updates.size, &updates.key_size))
		return NULL;
	if (take_pieces(&updates, list) && find_updates(&updates) && mark_outdated(&updates))
		result = places_left(&updates);
	else if (!PyErr_Occurred())
		result = Py_NewRef(Py_None);
	for (Py_ssize_t i = 0; i < updates.piece_count; i++)
	{
		PyBuffer_Release(&updates.pieces[i].payload);
		PyBuffer_Release(&updates.pieces[i].places);
	}
	PyMem_Free(updates.pieces);
	PyMem_Free(updates.list);
	PyMem_Free(updates.fields);
	return result;
}
