"""Topics of the tests' broker."""

from __future__ import annotations

from pgrepl.throwaway.broker import find_jars

#: Found at once: tests of Spark move the user's cache elsewhere.
KAFKA_JARS = find_jars()
