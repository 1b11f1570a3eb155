/*
 * group.c
 *	  The messages of a payload of pgoutput's, sorted by table.
 *
 * The payload is as decoding/pgoutput/framing.py says: the number of messages, the size of each,
 * and then all of them.  TuplesByTable of decoding/pgoutput/by_table.py does the same in Python.
 */
#include "bytes.h"

/* The changes of a table, as one relation message describes it. */
typedef struct Group
{
	uint32_t	oid;
	Place		relation;
	Place	   *places;
	size_t		count;
	size_t		room;
	/* The group that was described after this one and is found by the same hash; -1: none. */
	Py_ssize_t	next;
} Group;

#define CHAIN_COUNT 1024

typedef struct Groups
{
	Group	   *list;
	size_t		count;
	size_t		room;
	/* The newest group of each chain, the older ones after it; -1: none. */
	Py_ssize_t	chains[CHAIN_COUNT];
} Groups;

static Group *
find_group(Groups *groups, uint32_t oid)
{
	Py_ssize_t	at = groups->chains[oid % CHAIN_COUNT];

	while (at >= 0 && groups->list[at].oid != oid)
		at = groups->list[at].next;
	return at < 0 ? NULL : &groups->list[at];
}

/* Begin another group; false when there is no memory. */
static bool
add_group(Groups *groups, uint32_t oid, Place relation)
{
	Group	   *group;
	Py_ssize_t *chain = &groups->chains[oid % CHAIN_COUNT];

	if (groups->count == groups->room)
	{
		size_t		room = groups->room * 2 + 16;
		Group	   *list = PyMem_Realloc(groups->list, room * sizeof(Group));

		if (list == NULL)
			return false;
		groups->list = list;
		groups->room = room;
	}
	group = &groups->list[groups->count];
	memset(group, 0, sizeof(Group));
	group->oid = oid;
	group->relation = relation;
	group->next = *chain;
	*chain = (Py_ssize_t) groups->count++;
	return true;
}

static bool
add_change(Group *group, Place place)
{
	if (group->count == group->room)
	{
		size_t		room = group->room * 2 + 16;
		Place	   *places = PyMem_Realloc(group->places, room * sizeof(Place));

		if (places == NULL)
			return false;
		group->places = places;
		group->room = room;
	}
	group->places[group->count++] = place;
	return true;
}

static void
free_groups(Groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		PyMem_Free(groups->list[i].places);
	PyMem_Free(groups->list);
}

/* Give each change to its table; returns how many there are, -1 with an exception set. */
static Py_ssize_t
sort_messages(Groups *groups, const unsigned char *payload, size_t size)
{
	size_t		count;
	size_t		at;
	Py_ssize_t	change_count = 0;

	count = size < 4 ? 0 : read_uint32(payload);
	at = 4 * (count + 1);
	if (size < 4 || size > UINT32_MAX || at > size)
	{
		PyErr_SetString(PyExc_ValueError, "a payload is too short");
		return -1;
	}
	for (size_t i = 1; i <= count; i++)
	{
		Place		place = {(uint32_t) at, read_uint32(payload + 4 * i)};
		const unsigned char *message = payload + at;
		Group	   *group;

		if (place.size == 0 || place.size > size - at)
		{
			PyErr_SetString(PyExc_ValueError, "a payload is not as long as its messages");
			return -1;
		}
		at += place.size;
		if (message[0] == 'B')
			continue;
		if (place.size < 5)
		{
			PyErr_SetString(PyExc_ValueError, "a message is too short");
			return -1;
		}
		if (message[0] == 'R')
		{
			if (!add_group(groups, read_uint32(message + 1), place))
			{
				PyErr_NoMemory();
				return -1;
			}
			continue;
		}
		group = NULL;
		if (message[0] == 'I' || message[0] == 'U' || message[0] == 'D')
			group = find_group(groups, read_uint32(message + 1));
		if (group == NULL)
		{
			PyErr_SetString(PyExc_ValueError, "a change is of a table that is not described");
			return -1;
		}
		if (!add_change(group, place))
		{
			PyErr_NoMemory();
			return -1;
		}
		change_count++;
	}
	if (at != size)
	{
		PyErr_SetString(PyExc_ValueError, "a payload is not as long as its messages");
		return -1;
	}
	return change_count;
}

/*
 * group_changes(payload, change_count) -> [(relation, places), ...]
 *
 * Each relation message with the places of the changes that follow it, up to the next one of the
 * same table; in the order of the relation messages.  What places are only read_changes() knows.
 */
PyObject *
group_changes(PyObject *Py_UNUSED(module), PyObject *args)
{
	Py_buffer	payload;
	Py_ssize_t	expected;
	Py_ssize_t	change_count;
	Groups		groups = {NULL, 0, 0, {0}};
	PyObject   *result = NULL;

	if (!PyArg_ParseTuple(args, "y*n", &payload, &expected))
		return NULL;
	for (size_t i = 0; i < CHAIN_COUNT; i++)
		groups.chains[i] = -1;
	change_count = sort_messages(&groups, payload.buf, (size_t) payload.len);
	if (change_count >= 0 && change_count != expected)
		PyErr_Format(PyExc_ValueError, "a row should have %zd changes, it has %zd",
					 expected, change_count);
	else if (change_count >= 0)
		result = PyList_New(0);
	for (size_t i = 0; result != NULL && i < groups.count; i++)
	{
		Group	   *group = &groups.list[i];
		PyObject   *item;

		item = Py_BuildValue("(y#y#)",
							 (const char *) payload.buf + group->relation.at,
							 (Py_ssize_t) group->relation.size,
							 (const char *) (group->count ? group->places : (void *) ""),
							 (Py_ssize_t) (group->count * sizeof(Place)));
		if (item == NULL || PyList_Append(result, item) < 0)
			Py_CLEAR(result);
		Py_XDECREF(item);
	}
	free_groups(&groups);
	PyBuffer_Release(&payload);
	return result;
}
