/*
 * messages.c
 *	  What a receiver has to know of messages: pgoutput's, and wal2json's lines.
 *
 * PgoutputStream and Wal2JsonStream of decoding/ know the same.  Where one would refuse a message,
 * it is not recognised here.
 */
#include "route.h"

#define LINE_HEAD "{\"action\":\""
#define LINE_HEAD_SIZE (sizeof(LINE_HEAD) - 1)
#define KEY_END "\":["

/* Sizes of pgoutput's messages, and of what stands before its oid. */
#define BEGIN_SIZE 21
#define COMMIT_SIZE 26
#define KEY_SIZE 5

/* Return the letter that says what a message is, '\0' when it has none. */
char
action_of(const Flow *flow, const unsigned char *message, size_t size)
{
	if (!flow->is_json)
		return size > 0 ? (char) message[0] : '\0';
	if (size <= LINE_HEAD_SIZE || memcmp(message, LINE_HEAD, LINE_HEAD_SIZE) != 0)
		return '\0';
	return (char) message[LINE_HEAD_SIZE];
}

/* Narrow a change to what tells its table; false when it has no such thing. */
bool
find_table(const Flow *flow, Stretch *key)
{
	const unsigned char *end;

	if (!flow->is_json)
	{
		if (bytes_left(key) < KEY_SIZE)
			return false;
		key->end = key->at + KEY_SIZE;
		return true;
	}
	if (bytes_left(key) <= flow->key_at)
		return false;
	key->at += flow->key_at;
	end = memmem(key->at, bytes_left(key), KEY_END, sizeof(KEY_END) - 1);
	if (end == NULL)
		return false;
	key->end = end;
	return true;
}

/* Read half of an LSN; no more digits than it can have. */
static bool
read_hex(Stretch *rest, uint64_t *number)
{
	int			digits = 0;

	*number = 0;
	for (; rest->at < rest->end; rest->at++, digits++)
	{
		unsigned char c = *rest->at;

		if (c >= '0' && c <= '9')
			*number = *number << 4 | (uint64_t) (c - '0');
		else if (c >= 'A' && c <= 'F')
			*number = *number << 4 | (uint64_t) (c - 'A' + 10);
		else
			break;
	}
	return digits > 0 && digits <= 8;
}

static bool
read_lsn(Stretch *rest, uint64_t *lsn)
{
	uint64_t	high;
	uint64_t	low;

	if (!read_hex(rest, &high) || !SKIP(rest, "/") || !read_hex(rest, &low))
		return false;
	*lsn = high << 32 | low;
	return true;
}

/* Read a begin line as BEGIN of decoding/wal2json/grammar.py does; keys stand at its "nextlsn". */
static bool
read_begin_line(Flow *flow, const unsigned char *message, size_t size, uint64_t *commit_lsn)
{
	Stretch		rest = {message, message + size};
	const unsigned char *key;
	uint64_t	next_lsn;

	if (!SKIP(&rest, LINE_HEAD "B\",\"xid\":") || !skip_digits(&rest) ||
		!SKIP(&rest, ",\"timestamp\":\""))
		return false;
	key = rest.at;
	while (rest.at < rest.end && *rest.at != '"')
		rest.at++;
	if (rest.at == key || !SKIP(&rest, "\","))
		return false;
	if (SKIP(&rest, "\"origin\":") && (!skip_digits(&rest) || !SKIP(&rest, ",")))
		return false;
	if (!SKIP(&rest, "\"lsn\":\"") || !read_lsn(&rest, commit_lsn) || !SKIP(&rest, "\""))
		return false;
	key = rest.at;
	if (!SKIP(&rest, ",\"nextlsn\":\"") || !read_lsn(&rest, &next_lsn) ||
		!SKIP(&rest, "\"}") || rest.at != rest.end)
		return false;
	flow->key_at = (size_t) (key - message);
	return true;
}

/* Read the position out of a begin message; false when it is none. */
bool
read_begin(Flow *flow, const unsigned char *message, size_t size, uint64_t *commit_lsn)
{
	if (flow->is_json)
		return read_begin_line(flow, message, size, commit_lsn);
	if (size != BEGIN_SIZE)
		return false;
	*commit_lsn = read_uint64(message + 1);
	flow->key_at = 0;
	return true;
}

/* Whether a commit message ends the transaction in hand. */
bool
is_end_of(const Flow *flow, const unsigned char *message, size_t size)
{
	const char *begin = PyBytes_AS_STRING(flow->begin);
	size_t		begin_size = (size_t) PyBytes_GET_SIZE(flow->begin);

	if (flow->is_json)
	{
		/* All but the action is the same. */
		size_t		body = LINE_HEAD_SIZE + 1;

		return size == begin_size && size > body &&
			memcmp(begin + body, message + body, size - body) == 0;
	}
	/* Position and time, which both messages carry. */
	return size == COMMIT_SIZE && begin_size == BEGIN_SIZE &&
		memcmp(begin + 1, message + 2, 8) == 0 && memcmp(begin + 9, message + 18, 8) == 0;
}
