/*
 * route.h
 *	  A stream of messages: where it stands, what brings them, what they look like.
 */
#ifndef PGREPL_ROUTE_H
#define PGREPL_ROUTE_H

#include "bytes.h"

/* The Flow of receiver/flow.py, which says what each is; loaded at the beginning of a call. */
typedef struct Flow
{
	uint64_t	received;
	uint64_t	stop;			/* 0: there is none */
	uint64_t	last_end;
	size_t		byte_count;
	size_t		whole_bytes;
	size_t		limit_bytes;
	size_t		header_bytes;
	size_t		lsn_at;
	size_t		key_at;
	PyObject   *begin;
	PyObject   *begins;
	PyObject   *plain;
	PyObject   *given;			/* what "known" is at the beginning */
	PyObject   *known;			/* one of the two; borrowed */
	bool		is_in_transaction;
	bool		is_alone;
	bool		is_json;
	char		tag;
} Flow;

extern bool load_flow(Flow *flow, PyObject *from);
extern bool store_flow(const Flow *flow, PyObject *to);
extern void free_flow(Flow *flow);

/* messages.c: what both plugins send. */
extern char action_of(const Flow *flow, const unsigned char *message, size_t size);
extern bool find_table(const Flow *flow, Stretch *key);
extern bool read_begin(Flow *flow, const unsigned char *message, size_t size, uint64_t *commit_lsn);
extern bool is_end_of(const Flow *flow, const unsigned char *message, size_t size);

/* frames.c: a list of buffers, or the connection to a server. */
typedef struct Frame
{
	const unsigned char *data;
	size_t		size;
	Py_buffer	buffer;			/* of a list */
	char	   *copied;			/* libpq's */
} Frame;

typedef struct Frames
{
	PyObject   *list;
	Py_ssize_t	at;
	PyObject   *notices;
	void	   *connection;
	int			(*get_copy_data) (void *connection, char **buffer, int async);
	void		(*free_memory) (void *memory);
} Frames;

extern bool open_frames(Frames *frames, PyObject *source);
extern int	next_frame(Frames *frames, Frame *frame);
extern void end_frame(Frames *frames, Frame *frame);
extern bool has_notices(const Frames *frames);

#endif							/* PGREPL_ROUTE_H */
