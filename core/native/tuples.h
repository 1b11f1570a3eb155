/*
 * tuples.h
 *	  What reading the changes of one table has in common.
 */
#ifndef PGREPL_TUPLES_H
#define PGREPL_TUPLES_H

#include "bytes.h"

/* As PostgreSQL's MaxTupleAttributeNumber, rounded up: no tuple has more columns. */
#define MAX_COLUMNS 2048

/* A column of a tuple; "text" is NULL where it is null, or unchanged and stored out of line. */
typedef struct Field
{
	const unsigned char *text;
	uint32_t	size;
	unsigned char kind;
} Field;

typedef struct Reading
{
	const unsigned char *payload;
	const unsigned char *places;	/* of the changes, a Place each */
	size_t		count;
	int			size;			/* columns of the table */
	int		   *new_places;		/* columns of the new row that a change is made of */
	int			new_count;
	int		   *old_places;		/* ... and of the old one */
	int			old_count;
	Field	   *old_fields;		/* the tuples of the change in hand */
	Field	   *new_fields;
	PyObject   *null;
	PyObject   *empty;
	PyObject   *actions[3];
} Reading;

extern bool read_tuple(Stretch *rest, Field *fields, int size);

/* The bytes come from Python and may stand at any address. */
static inline Place
place_of(const void *places, size_t number)
{
	Place		place;

	memcpy(&place, (const char *) places + number * sizeof(Place), sizeof(Place));
	return place;
}

#endif							/* PGREPL_TUPLES_H */
