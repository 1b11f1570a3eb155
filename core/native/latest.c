/*
 * latest.c
 *	  Lines of a row that a later line replaces, and that need not become values.
 */
#include "lines.h"

static inline bool
is_same(const Stretch *one, const Stretch *other)
{
	return bytes_left(one) == bytes_left(other) &&
		memcmp(one->at, other->at, bytes_left(one)) == 0;
}

/* Whether a line is an update that leaves the key alone. */
static bool
keeps_key(const LineReading *reading, const Line *line)
{
	if (line->action != 1 || !line->has_new || !line->has_old)
		return false;
	for (int i = 0; i < reading->key_size; i++)
	{
		if (!is_same(&line->values[reading->key[i].new], &line->values[reading->key[i].old]))
			return false;
	}
	return true;
}

static uint64_t
hash_key(const LineReading *reading, const Line *line)
{
	uint64_t	hash = 0;

	for (int i = 0; i < reading->key_size; i++)
	{
		const Stretch *value = &line->values[reading->key[i].new];

		hash = hash * UINT64_C(0x9E3779B97F4A7C15) + hash_bytes(value->at, bytes_left(value));
	}
	return hash ^ hash >> 32;
}

static bool
has_same_key(const LineReading *reading, const Line *one, const Line *other)
{
	for (int i = 0; i < reading->key_size; i++)
	{
		int			place = reading->key[i].new;

		if (!is_same(&one->values[place], &other->values[place]))
			return false;
	}
	return true;
}

/*
 * Keep the last line of each row in the place of its first one, when all are updates that leave the
 * key alone: each has the whole row.  False with an exception set.
 */
bool
keep_latest(LineReading *reading)
{
	size_t		room = 16;
	size_t		kept = 0;
	uint32_t   *table;

	for (size_t i = 0; i < reading->count; i++)
	{
		if (!keeps_key(reading, &reading->lines[i]))
			return true;
	}
	if (reading->count >= UINT32_MAX)
		return true;
	while (room < reading->count * 2)
		room *= 2;
	/* Numbers of lines that are kept, each plus one; 0: free. */
	table = PyMem_Calloc(room, sizeof(uint32_t));
	if (table == NULL)
	{
		PyErr_NoMemory();
		return false;
	}
	for (size_t i = 0; i < reading->count; i++)
	{
		const Line *line = &reading->lines[i];
		size_t		at = hash_key(reading, line) & (room - 1);

		while (table[at] != 0 && !has_same_key(reading, &reading->lines[table[at] - 1], line))
			at = (at + 1) & (room - 1);
		if (table[at] == 0)
			table[at] = (uint32_t) ++kept;
		reading->lines[table[at] - 1] = *line;
	}
	PyMem_Free(table);
	reading->count = kept;
	return true;
}
