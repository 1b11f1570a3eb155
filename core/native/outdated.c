/*
 * outdated.c
 *	  Updates of a row that a later update replaces, and that need not be read.
 */
#include "tuples.h"

/*
 * Find the key of an update that leaves it alone: its first columns, with what stands before each.
 * False when the change is another one, or corrupted: then all of them are read.
 */
static bool
find_key(const Reading *reading, Place place, Stretch *key)
{
	const unsigned char *message = reading->payload + place.at;
	Stretch		rest = {message + 8, message + place.size};

	if (place.size < 8 || message[0] != 'U' || message[5] != 'N' ||
		read_uint16(message + 6) != reading->size)
		return false;
	key->at = rest.at;
	for (int i = 0; i < reading->key_size; i++)
	{
		uint32_t	size;

		/* A key is never null; one that is stored out of line is not sent. */
		if (bytes_left(&rest) < 5 || rest.at[0] != 't')
			return false;
		size = read_uint32(rest.at + 1);
		rest.at += 5;
		if (bytes_left(&rest) < size)
			return false;
		rest.at += size;
	}
	key->end = rest.at;
	return true;
}

/* Whether an update has the whole new row; one that cannot be read has not. */
static bool
is_whole(Reading *reading, Place place)
{
	const unsigned char *message = reading->payload + place.at;
	Stretch		rest = {message + 6, message + place.size};

	if (!read_tuple(&rest, reading->new_fields, reading->size))
	{
		PyErr_Clear();
		return false;
	}
	for (int i = 0; i < reading->size; i++)
	{
		if (reading->new_fields[i].kind == 'u')
			return false;
	}
	return true;
}

/*
 * Return the last update of each row, when all are updates that leave the key alone; those before
 * need not even be read, as the last one has the whole row.  NULL: all are to be read, or, with an
 * exception set, there is no memory.
 */
Place *
without_outdated(Reading *reading, size_t *count)
{
	size_t		room = 16;
	size_t		kept = 0;
	Place	   *places;
	uint32_t   *table;

	while (room < reading->count * 2)
		room *= 2;
	places = PyMem_Malloc(reading->count * sizeof(Place));
	/* Numbers in "places", each plus one; 0: free. */
	table = PyMem_Calloc(room, sizeof(uint32_t));
	if (places == NULL || table == NULL)
	{
		PyErr_NoMemory();
		goto failed;
	}
	for (size_t i = 0; i < reading->count; i++)
	{
		Place		place = place_of(reading, i);
		Stretch		key;
		Stretch		other;
		size_t		at;

		if (!find_key(reading, place, &key))
			goto failed;
		at = hash_bytes(key.at, bytes_left(&key)) & (room - 1);
		while (table[at] != 0)
		{
			if (find_key(reading, places[table[at] - 1], &other) &&
				bytes_left(&other) == bytes_left(&key) &&
				memcmp(other.at, key.at, bytes_left(&key)) == 0)
				break;
			at = (at + 1) & (room - 1);
		}
		if (table[at] == 0)
			table[at] = (uint32_t) ++kept;
		places[table[at] - 1] = place;
	}
	if (kept == reading->count)
		goto failed;
	for (size_t i = 0; i < kept; i++)
	{
		if (!is_whole(reading, places[i]))
			goto failed;
	}
	PyMem_Free(table);
	*count = kept;
	return places;

failed:
	PyMem_Free(table);
	PyMem_Free(places);
	return NULL;
}
