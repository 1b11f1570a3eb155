"""The publications that pgoutput reads on a source.

A source has two: one for tables with a replica identity, and one of inserts and truncates alone for
all others. In the first one an UPDATE of a table without an identity would fail on the source.
"""
