"""Spark's data source over the spool: ``spark.read.format("pgrepl")``, and ``readStream``.

An offset of a stream is a segment of the spool. Spark's checkpoint says where a stream is; its
consumer on the target follows, and keeps the spool for it. A checkpoint holds the id of its
consumer, so that it never goes on with the spool of another.

Spark makes readers in several processes, and pickles them for its tasks: making one touches
nothing, and what it holds open is not pickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pgrepl.config.file import find_config, load_config
from pgrepl.durations import parse_duration
from pgrepl.errors import UsageError
from pgrepl.export.spark.consumer import HeldConsumer
from pgrepl.export.spark.segments import (
    SCHEMA,
    SpoolPiece,
    SpoolReading,
    find_end,
    plan_pieces,
    read_piece,
)
from pgrepl.postgres.connect import connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.progress.receive_progress import last_written
from pgrepl.store.sources import find_source
from pgrepl.store.spool.spool_rows import find_first
from pgrepl.terminal import command

__all__ = ["PgreplDataSource"]

_KEEP = "7d"
_PIECE_CHANGES = "50000"
_BATCH_CHANGES = "500000"
_OPTIONS = frozenset(
    {"config", "source", "tables", "consumer", "keep", "changespertask", "maxchangespertrigger"}
)

#: A segment, and of streams the id of their consumer.
_Offset = dict[str, Any]


class PgreplDataSource(DataSource):
    """Changes of a source.

    Options: ``source``; ``config``, else as the program finds it; ``tables``, patterns with commas
    between; ``changesPerTask``; of streams ``consumer``, ``keep`` and ``maxChangesPerTrigger``.
    """

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` takes."""
        return "pgrepl"

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ANN401, ARG002  Spark's StructType
        """Return what reads what is in the spool now."""
        return _Reader(self._read_options())

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ANN401, ARG002, N802
        """Return what follows the spool."""
        given = self.options
        if not given.get("consumer"):
            raise UsageError(
                'option "consumer" is missing: the name under which the spool is kept',
                hint='One for each checkpoint: .option("consumer", "orders")',
            )
        try:
            keep = parse_duration(given.get("keep", _KEEP))
        except ValueError as exc:
            raise UsageError(f'option "keep": {exc}') from exc
        room = _number(given, "maxChangesPerTrigger", _BATCH_CHANGES)
        reading = self._read_options()
        return _StreamReader(reading, HeldConsumer(reading, given["consumer"], keep), room)

    def _read_options(self) -> SpoolReading:
        given = self.options
        unknown = sorted(key for key in given if key.lower() not in _OPTIONS)
        if unknown:
            raise UsageError(f'unknown option "{unknown[0]}" of format "pgrepl"')
        if not given.get("source"):
            raise UsageError('option "source" is missing', hint='.option("source", "shop")')
        path = given.get("config") or os.environ.get("PGREPL_CONFIG")
        config = load_config(find_config(Path(path) if path else None, home=os.environ.get("HOME")))
        source = config.source(given["source"])
        if not source.is_database:
            raise UsageError(f'source "{source.name}" is not a PostgreSQL server')
        endpoint = config.target.endpoint
        with (
            closing(connect(endpoint, "spark")) as connection,
            translated(endpoint, "cannot read the spool"),
        ):
            row = find_source(connection, source.name)
        if row is None:
            raise UsageError(
                f'source "{source.name}" is not copied',
                hint=f"Run: {command('basebackup', source.name)}",
            )
        tables = (pattern.strip() for pattern in given.get("tables", "").split(","))
        return SpoolReading(
            endpoint,
            source.name,
            row.source_id,
            tuple(filter(None, tables)),
            _number(given, "changesPerTask", _PIECE_CHANGES),
        )


class _Reader(DataSourceReader):
    """Reads what is in the spool when it is planned."""

    def __init__(self, reading: SpoolReading) -> None:
        self._reading = reading

    def partitions(self) -> list[InputPartition]:
        reading = self._reading
        with (
            closing(connect(reading.target, "spark")) as connection,
            translated(reading.target, "cannot read the spool"),
            connection.transaction(),
        ):
            connection.execute("set transaction isolation level repeatable read, read only")
            first = find_first(connection, reading.source_id)
            last = last_written(connection, reading.source_id)
            begin = last if first is None else first - 1
            # Spark makes a partition of its own where there is none.
            return [*plan_pieces(connection, reading, begin, last)] or [SpoolPiece(last, last)]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  InputPartition
        return read_piece(self._reading, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the spool, which is kept for it."""

    def __init__(self, reading: SpoolReading, consumer: HeldConsumer, room: int) -> None:
        self._reading = reading
        self._consumer = consumer
        self._room = room
        #: Where a stream ends that takes only what there is.
        self._until: int | None = None

    def initialOffset(self) -> _Offset:  # noqa: N802  Spark's name
        return self._consumer.begin()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        return ReadMaxRows(self._room)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        with self._consumer.session() as connection:
            self._until = last_written(connection, self._reading.source_id)

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:  # noqa: N802
        source_id = self._reading.source_id
        with self._consumer.session(start) as connection:
            last = last_written(connection, source_id)
            if self._until is not None:
                last = min(last, self._until)
            if last <= start["seq"]:
                self._consumer.rest(connection)
                return start
            if isinstance(limit, ReadMaxRows):
                last = find_end(connection, source_id, start["seq"], last, limit.max_rows)
            return {**start, "seq": last}

    def partitions(self, start: _Offset, end: _Offset) -> list[InputPartition]:
        with self._consumer.session(start) as connection:
            return [*plan_pieces(connection, self._reading, start["seq"], end["seq"])]

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  InputPartition
        return read_piece(self._reading, partition)

    def commit(self, end: _Offset) -> None:
        self._consumer.move(end)

    def stop(self) -> None:
        self._consumer.close()


def _number(given: Mapping[str, str], name: str, default: str) -> int:
    text = given.get(name, default)
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f'option "{name}": "{text}" is not a number above 0')
    return int(text)
