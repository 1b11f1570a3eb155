/*
 * bytes.h
 *	  Numbers and texts in a stretch of bytes that nobody has checked.
 *
 * Whatever comes from a server or out of the spool may be corrupted.  Every function here that
 * looks at bytes says first whether they are there.
 */
#ifndef PGREPL_BYTES_H
#define PGREPL_BYTES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* memmem */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes from "at" up to, and not including, "end". */
typedef struct Stretch
{
	const unsigned char *at;
	const unsigned char *end;
} Stretch;

static inline size_t
bytes_left(const Stretch *stretch)
{
	return (size_t) (stretch->end - stretch->at);
}

/* Go over bytes that must stand here. */
static inline bool
skip(Stretch *rest, const char *text, size_t size)
{
	if (bytes_left(rest) < size || memcmp(rest->at, text, size) != 0)
		return false;
	rest->at += size;
	return true;
}

/* Go over a text that stands in the code, and must stand here. */
#define SKIP(rest, text) skip(rest, text, sizeof(text) - 1)

/* Go over digits: at least one. */
static inline bool
skip_digits(Stretch *rest)
{
	const unsigned char *start = rest->at;

	while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
		rest->at++;
	return rest->at > start;
}

/* Numbers are sent with the most significant byte first; the caller knows they are there. */
static inline uint16_t
read_uint16(const unsigned char *at)
{
	return (uint16_t) (at[0] << 8 | at[1]);
}

static inline uint32_t
read_uint32(const unsigned char *at)
{
	return (uint32_t) at[0] << 24 | (uint32_t) at[1] << 16 | (uint32_t) at[2] << 8 | at[3];
}

static inline uint64_t
read_uint64(const unsigned char *at)
{
	return (uint64_t) read_uint32(at) << 32 | read_uint32(at + 4);
}

/* Bytes that can come in any order are found by a number that differs from process to process. */
extern uint64_t hash_seed;

static inline uint64_t
hash_bytes(const unsigned char *at, size_t size)
{
	uint64_t	hash = hash_seed ^ size;
	uint64_t	word;

	while (size >= sizeof(word))
	{
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
		hash ^= hash >> 29;
		at += sizeof(word);
		size -= sizeof(word);
	}
	word = 0;
	memcpy(&word, at, size);
	hash = (hash ^ word) * UINT64_C(0xBF58476D1CE4E5B9);
	return hash ^ hash >> 32;
}

/* Where a message stands in its payload. */
typedef struct Place
{
	uint32_t	at;
	uint32_t	size;
} Place;

/* What the module consists of; see the files of these names. */
extern PyObject *deal(PyObject *module, PyObject *args);
extern PyObject *expand(PyObject *module, PyObject *payload);
extern PyObject *group_changes(PyObject *module, PyObject *args);
extern PyObject *has_fixed(PyObject *module, PyObject *args);
extern PyObject *join_rows(PyObject *module, PyObject *args);
extern PyObject *last_updates(PyObject *module, PyObject *args);
extern PyObject *read_changes(PyObject *module, PyObject *args);
extern PyObject *read_lines(PyObject *module, PyObject *args);
extern PyObject *route(PyObject *module, PyObject *args);
extern PyObject *shorten(PyObject *module, PyObject *lines);

#endif							/* PGREPL_BYTES_H */
