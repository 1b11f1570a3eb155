/*
 * lines.h
 *	  What reading the lines of one table has in common.
 */
#ifndef PGREPL_LINES_H
#define PGREPL_LINES_H

#include "bytes.h"

/* As PostgreSQL's MaxTupleAttributeNumber, rounded up, and INDEX_MAX_KEYS. */
#define MAX_ENTRIES 2048
#define MAX_KEY 32

/* What a line can be; which it is is a place in this text. */
#define LINE_ACTIONS "IUD"

/* Kinds of values, which LineLayout names by these letters. */
#define BARE 'b'				/* never in quotes */
#define NUMBER 'n'				/* an integer, maybe in quotes */
#define FLOAT 'f'				/* maybe in quotes */

/* A column of a list. */
typedef struct Entry
{
	const char *prefix;			/* what stands before its value */
	size_t		prefix_size;
	char		kind;
	bool		is_captured;
} Entry;

typedef struct Entries
{
	Entry	   *list;
	int			count;
	int			captured;
} Entries;

/* Where a column of the key stands among the values of a line. */
typedef struct KeyPlace
{
	int			new;
	int			old;
} KeyPlace;

typedef struct Line
{
	Stretch    *values;			/* NULL where the line has no such list */
	char		action;			/* its place in LINE_ACTIONS */
	bool		has_new;
	bool		has_old;
} Line;

typedef struct LineReading
{
	const char *table;
	size_t		table_size;
	Entries		new;
	Entries		old;
	int			value_count;
	KeyPlace	key[MAX_KEY];
	int			key_size;		/* 0: nothing is skipped */
	Line	   *lines;
	Stretch    *values;
	size_t		count;
	size_t		room;
	bool		has_escapes;	/* whether a value has a backslash */
	PyObject   *null;
	PyObject   *empty;
	PyObject   *actions[3];
} LineReading;

extern bool prepare_lines(LineReading *reading, PyObject *new, PyObject *old, PyObject *key);
extern void finish_lines(LineReading *reading);
extern bool keep_latest(LineReading *reading);

#endif							/* PGREPL_LINES_H */
