/*
 * route.c
 *	  Messages of an output plugin, sorted into the buckets of their tables as they come.
 *
 * Only what needs no second look is done here: the begin and the end of transactions, and changes
 * of tables whose bucket is known.  Assembler of receiver/postgres/assembler.py does the same in
 * Python, and gets every other message: whatever is wrong is thus refused there.
 */
#include "route.h"

/* Where the change of a table goes is remembered by its key while a call lasts. */
#define KEY_COUNT 1024
#define BUCKET_COUNT 128

/* A BucketMessages of receiver/spool/bucket_messages.py; what it has is written back at the end. */
typedef struct Bucket
{
	PyObject   *messages;
	PyObject   *lines;
	PyObject   *begin;			/* of the transaction that the last line is of */
	Py_ssize_t	begin_count;
} Bucket;

typedef struct KnownKey
{
	PyObject   *key;			/* bytes */
	Bucket	   *bucket;
} KnownKey;

typedef struct Routing
{
	Flow		flow;
	KnownKey	keys[KEY_COUNT];
	Bucket		buckets[BUCKET_COUNT];
	int			bucket_count;
} Routing;

/* What became of a message: it is taken, or is Python's, or there is an exception. */
typedef enum Fate
{
	TAKEN,
	LEFT,
	FAILED
} Fate;

/* Find the bucket of this object, which is new to this call or not; NULL with an exception set. */
static Bucket *
find_bucket(Routing *routing, PyObject *messages)
{
	Bucket	   *bucket;
	PyObject   *count;

	for (int i = 0; i < routing->bucket_count; i++)
	{
		if (routing->buckets[i].messages == messages)
			return &routing->buckets[i];
	}
	if (routing->bucket_count == BUCKET_COUNT)
	{
		PyErr_SetString(PyExc_OverflowError, "there are too many buckets");
		return NULL;
	}
	bucket = &routing->buckets[routing->bucket_count];
	memset(bucket, 0, sizeof(Bucket));
	bucket->lines = PyObject_GetAttrString(messages, "lines");
	bucket->begin = PyObject_GetAttrString(messages, "begin");
	count = PyObject_GetAttrString(messages, "begin_count");
	if (count != NULL)
		bucket->begin_count = PyLong_AsSsize_t(count);
	Py_XDECREF(count);
	if (!PyErr_Occurred() && !PyList_Check(bucket->lines))
		PyErr_SetString(PyExc_TypeError, "lines are a list");
	if (PyErr_Occurred())
	{
		Py_CLEAR(bucket->lines);
		Py_CLEAR(bucket->begin);
		return NULL;
	}
	bucket->messages = Py_NewRef(messages);
	routing->bucket_count++;
	return bucket;
}

static inline bool
is_key(const KnownKey *known, const unsigned char *key, size_t size)
{
	return known->key != NULL && (size_t) PyBytes_GET_SIZE(known->key) == size &&
		memcmp(PyBytes_AS_STRING(known->key), key, size) == 0;
}

/* Return where changes with this key go; NULL, maybe with an exception set, when nobody knows. */
static Bucket *
find_key(Routing *routing, const unsigned char *key, size_t size)
{
	KnownKey   *known = &routing->keys[hash_bytes(key, size) % KEY_COUNT];
	PyObject   *wanted;
	PyObject   *messages;
	Bucket	   *bucket;

	if (is_key(known, key, size))
		return known->bucket;
	wanted = PyBytes_FromStringAndSize((const char *) key, (Py_ssize_t) size);
	if (wanted == NULL)
		return NULL;
	messages = PyDict_GetItemWithError(routing->flow.known, wanted);
	bucket = messages == NULL ? NULL : find_bucket(routing, messages);
	if (bucket == NULL)
	{
		Py_DECREF(wanted);
		return NULL;
	}
	Py_XSETREF(known->key, wanted);
	known->bucket = bucket;
	return bucket;
}

static void
forget_keys(Routing *routing)
{
	for (int i = 0; i < KEY_COUNT; i++)
		Py_CLEAR(routing->keys[i].key);
}

/* Append a message to the lines of a bucket. */
static bool
append(Bucket *bucket, const unsigned char *message, size_t size)
{
	PyObject   *line = PyBytes_FromStringAndSize((const char *) message, (Py_ssize_t) size);
	int			result = line == NULL ? -1 : PyList_Append(bucket->lines, line);

	Py_XDECREF(line);
	return result == 0;
}

static Fate
take_change(Routing *routing, const unsigned char *message, size_t size)
{
	Flow	   *flow = &routing->flow;
	Stretch		key = {message, message + size};
	Bucket	   *bucket;

	if (!flow->is_in_transaction || !find_table(flow, &key))
		return LEFT;
	bucket = find_key(routing, key.at, bytes_left(&key));
	if (bucket == NULL)
		return PyErr_Occurred() ? FAILED : LEFT;
	if (size >= flow->limit_bytes || flow->byte_count >= flow->limit_bytes - size)
		return LEFT;
	if (bucket->begin != flow->begin)
	{
		if (PyList_Append(bucket->lines, flow->begin) < 0)
			return FAILED;
		Py_SETREF(bucket->begin, Py_NewRef(flow->begin));
		bucket->begin_count++;
	}
	if (!append(bucket, message, size))
		return FAILED;
	flow->byte_count += size;
	return TAKEN;
}

static Fate
take_begin(Routing *routing, const unsigned char *message, size_t size)
{
	Flow	   *flow = &routing->flow;
	uint64_t	commit_lsn;
	PyObject   *begin;

	if (flow->is_in_transaction || !read_begin(flow, message, size, &commit_lsn) ||
		(flow->stop != 0 && commit_lsn >= flow->stop))
		return LEFT;
	begin = PyBytes_FromStringAndSize((const char *) message, (Py_ssize_t) size);
	if (begin == NULL)
		return FAILED;
	Py_SETREF(flow->begin, begin);
	if (flow->known != flow->plain)
	{
		/* Those of a serial transaction, or none. */
		forget_keys(routing);
		flow->known = flow->plain;
	}
	flow->is_in_transaction = true;
	flow->whole_bytes = flow->byte_count;
	flow->byte_count += size;
	return TAKEN;
}

static Fate
take_commit(Routing *routing, const unsigned char *message, size_t size, uint64_t end_lsn)
{
	Flow	   *flow = &routing->flow;

	if (!flow->is_in_transaction || flow->is_alone || !is_end_of(flow, message, size) ||
		end_lsn <= flow->received)
		return LEFT;
	if (flow->byte_count > flow->whole_bytes + (size_t) PyBytes_GET_SIZE(flow->begin))
	{
		if (PyList_Append(flow->begins, flow->begin) < 0)
			return FAILED;
		flow->last_end = end_lsn;
	}
	else
		flow->byte_count = flow->whole_bytes;
	flow->received = end_lsn;
	flow->is_in_transaction = false;
	return TAKEN;
}

/* Take a frame, or leave it to Python. */
static Fate
take_frame(Routing *routing, const unsigned char *frame, size_t size)
{
	Flow	   *flow = &routing->flow;
	const unsigned char *message = frame + flow->header_bytes;

	/* In a stream there are keepalives as well. */
	if (size <= flow->header_bytes || (flow->tag != '\0' && frame[0] != (unsigned char) flow->tag))
		return LEFT;
	size -= flow->header_bytes;
	switch (action_of(flow, message, size))
	{
		case 'I':
		case 'U':
		case 'D':
			return take_change(routing, message, size);
		case 'B':
			return take_begin(routing, message, size);
		case 'C':
			return take_commit(routing, message, size, read_uint64(frame + flow->lsn_at));
		default:
			return LEFT;
	}
}

/* Write back what the buckets have, and let go of them. */
static bool
finish_buckets(Routing *routing)
{
	bool		is_done = true;

	for (int i = 0; i < routing->bucket_count; i++)
	{
		Bucket	   *bucket = &routing->buckets[i];
		PyObject   *count = PyLong_FromSsize_t(bucket->begin_count);

		if (count == NULL ||
			PyObject_SetAttrString(bucket->messages, "begin", bucket->begin) < 0 ||
			PyObject_SetAttrString(bucket->messages, "begin_count", count) < 0)
			is_done = false;
		Py_XDECREF(count);
		Py_DECREF(bucket->lines);
		Py_DECREF(bucket->begin);
		Py_DECREF(bucket->messages);
	}
	return is_done;
}

/* Write back what was done, also after an exception; false with an exception set. */
static bool
finish(Routing *routing, PyObject *flow)
{
	PyObject   *type;
	PyObject   *value;
	PyObject   *traceback;
	bool		is_done;

	PyErr_Fetch(&type, &value, &traceback);
	is_done = finish_buckets(routing) && store_flow(&routing->flow, flow);
	if (type != NULL)
		PyErr_Restore(type, value, traceback);
	return is_done && type == NULL;
}

/*
 * route(flow, frames, wanted_bytes, frame_bytes) -> (status, frame, count, bytes)
 *
 * Take frames until one is Python's, which is returned; until none is left; or until they have
 * wanted_bytes, where each counts for frame_bytes more than its size.  "frames" is a list of
 * buffers or a connection, see open_frames(); "status" is as PQgetCopyData() returns it.
 */
PyObject *
route(PyObject *Py_UNUSED(module), PyObject *args)
{
	PyObject   *flow;
	PyObject   *source;
	Py_ssize_t	wanted_bytes;
	Py_ssize_t	frame_bytes;
	Py_ssize_t	taken_bytes = 0;
	Py_ssize_t	count = 0;
	PyObject   *left = NULL;
	Routing    *routing;
	Frames		frames;
	Frame		frame;
	int			status = 0;
	Fate		fate = TAKEN;
	bool		is_done = false;

	if (!PyArg_ParseTuple(args, "OOnn", &flow, &source, &wanted_bytes, &frame_bytes) ||
		!open_frames(&frames, source))
		return NULL;
	routing = PyMem_Calloc(1, sizeof(Routing));
	if (routing == NULL)
		return PyErr_NoMemory();
	if (load_flow(&routing->flow, flow))
	{
		while (fate == TAKEN && taken_bytes < wanted_bytes &&
			   (status = next_frame(&frames, &frame)) > 0)
		{
			/* What the server said belongs to this frame. */
			fate = has_notices(&frames) ? LEFT : take_frame(routing, frame.data, frame.size);
			if (fate == TAKEN)
			{
				count++;
				taken_bytes += (Py_ssize_t) frame.size + frame_bytes;
			}
			else if (fate == LEFT)
				left = PyBytes_FromStringAndSize((const char *) frame.data, (Py_ssize_t) frame.size);
			end_frame(&frames, &frame);
		}
		is_done = finish(routing, flow);
	}
	forget_keys(routing);
	free_flow(&routing->flow);
	PyMem_Free(routing);
	if (!is_done)
	{
		Py_XDECREF(left);
		return NULL;
	}
	if (left == NULL)
		left = Py_NewRef(Py_None);
	return Py_BuildValue("(iNnn)", status, left, count, taken_bytes);
}
