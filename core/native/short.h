/*
 * short.h
 *	  Lines of wal2json without what they have in common; decoding/wal2json/short.py says how.
 */
#ifndef PGREPL_SHORT_H
#define PGREPL_SHORT_H

#include "bytes.h"

/* What begins a record, and what stands before a value in it. */
#define SIZE_MARK '#'
#define PATTERN_MARK '='
#define LINE_MARK '{'
#define VALUE_MARK '\t'

#define BEGIN_LINE "{\"action\":\"B\""

/* No more patterns in a payload, which are looked through one by one. */
#define MAX_PATTERNS 128
/* Of a line: more than two lists of PostgreSQL's MaxTupleAttributeNumber. */
#define MAX_VALUES 4096
/* More bytes than the lines of any payload have. */
#define MAX_LINES_BYTES ((size_t) 1 << 31)
/* Values of a begin line that those of its transaction may be equal to. */
#define MAX_BEGIN 8

/* A line without its values: what stands before each of them, and after the last one. */
typedef struct Pattern
{
	Stretch    *pieces;
	int			value_count;
	bool		is_begin;
} Pattern;

typedef struct Patterns
{
	Pattern		list[MAX_PATTERNS];
	int			count;
	Stretch		begin[MAX_BEGIN];	/* values of the last begin line that has a pattern */
	int			begin_count;
} Patterns;

extern bool add_pattern(Patterns *patterns, const Stretch *pieces, int value_count);
extern void remember_begin(Patterns *patterns, const Pattern *pattern, const Stretch *values);
extern void free_patterns(Patterns *patterns);

#endif							/* PGREPL_SHORT_H */
