"""Spark's data source over the spool: ``spark.read.format("pgrepl")``, and ``readStream``.

A row is a change; values are PostgreSQL's texts of them. An offset of a stream is a segment of the
spool. Spark's checkpoint says where a stream is; its consumer on the target follows, and keeps the
spool for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from pgrepl.config.dsn import Endpoint
from pgrepl.config.file import find_config, load_config
from pgrepl.config.naming import TableSelection
from pgrepl.durations import parse_duration
from pgrepl.errors import SpoolError, TargetError, UsageError
from pgrepl.export.transactions import read_transactions
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.replayer.batches import Limits, plan_batch
from pgrepl.store.consumers import activate, add_consumer, find_consumer, pass_segment
from pgrepl.store.migrations import migrate
from pgrepl.store.receive_progress import last_written
from pgrepl.store.sources import find_source
from pgrepl.store.spool import DDL_TABLE
from pgrepl.store.spool_rows import find_first, read_parts, read_segments

__all__ = ["PgreplDataSource"]

_SCHEMA = (
    "seq bigint, commit_lsn string, commit_at timestamp, xid bigint, op string,"
    " schema_name string, table_name string, before map<string,string>, after map<string,string>"
)
_PARTITION_CHANGES = 50_000
_PARTITION_SEGMENTS = 1000
_OPS = {b"I": "c", b"U": "u", b"D": "d", b"T": "t"}


@dataclass(frozen=True, slots=True)
class _Options:
    """What a reader was told, as tasks need it."""

    target: Endpoint
    source: str
    source_id: int
    tables: tuple[str, ...]
    consumer: str | None
    keep: str


@dataclass
class _Segments(InputPartition):
    """Some segments of the spool: after one, up to another."""

    from_seq: int
    to_seq: int
    buckets: list[int]
    lone: frozenset[int]


class PgreplDataSource(DataSource):
    """Changes of a source.

    Options: ``source``; ``config``, else as the program finds it; ``tables``, patterns with commas
    between; ``consumer`` and ``keep`` as of ``pgrepl export``.
    """

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` takes."""
        return "pgrepl"

    def schema(self) -> str:
        """Return the columns."""
        return _SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ANN401, ARG002  Spark's StructType
        """Return what reads what is in the spool now."""
        return _Reader(self._read_options(consumer=None))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ANN401, ARG002, N802
        """Return what follows the spool."""
        return _StreamReader(self._read_options(consumer="spark"))

    def _read_options(self, *, consumer: str | None) -> _Options:
        given = self.options
        if "source" not in given:
            raise UsageError('option "source" is missing', hint='.option("source", "shop")')
        path = Path(given["config"]) if "config" in given else None
        config = load_config(find_config(path, home=os.environ.get("HOME")))
        source = config.source(given["source"])
        endpoint = config.target.endpoint
        with closing(connect(endpoint, "export")) as connection:
            migrate(connection, endpoint)
            row = find_source(connection, source.name)
        if row is None:
            raise UsageError(f'source "{source.name}" is not copied')
        tables = tuple(filter(None, given.get("tables", "").split(",")))
        return _Options(
            endpoint,
            source.name,
            row.source_id,
            tables,
            given.get("consumer", consumer),
            given.get("keep", "7d"),
        )


class _Reader(DataSourceReader):
    """Reads what is in the spool when it is planned."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with closing(connect(options.target, "export")) as connection:
            first = find_first(connection, options.source_id)
            last = last_written(connection, options.source_id)
            if first is None:
                return []
            return _plan(connection, options, first - 1, last)

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  InputPartition
        return _read(self._options, partition)


class _StreamReader(DataSourceStreamReader):
    """Follows the spool, which is kept for it."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        options = self._options
        name = options.consumer or "spark"
        with closing(connect(options.target, "export")) as connection:
            found = find_consumer(connection, options.source_id, name)
            if found is None:
                if not add_consumer(
                    connection,
                    options.source_id,
                    name,
                    kind="spark",
                    destination="spark",
                    options={},
                    keep=parse_duration(options.keep),
                ):
                    raise TargetError(f'replay has never run for source "{options.source}"')
                found = find_consumer(connection, options.source_id, name)
                if found is not None:
                    state = {"seq": found.seq, "lsn": str(found.lsn), "memory": {}}
                    activate(connection, found, state)
        if found is None or found.lost_at is not None:
            raise SpoolError(
                f'consumer "{name}" was let go: the spool was not kept for it any longer',
                hint=f"Forget it with pgrepl export {options.source} --consumer {name} --forget,"
                " and begin with another checkpoint.",
            )
        return {"seq": found.seq}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        with closing(connect(self._options.target, "export")) as connection:
            return {"seq": last_written(connection, self._options.source_id)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        with closing(connect(self._options.target, "export")) as connection:
            return _plan(connection, self._options, start["seq"], end["seq"])

    def commit(self, end: dict[str, int]) -> None:
        options = self._options
        with closing(connect(options.target, "export")) as connection:
            name = options.consumer or "spark"
            pass_segment(connection, options.source_id, name, end["seq"])

    def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401  InputPartition
        return _read(self._options, partition)


def _plan(
    connection: Connection, options: _Options, from_seq: int, to_seq: int
) -> list[InputPartition]:
    """Cut a range of segments into pieces; all of them must be there."""
    found: list[InputPartition] = []
    limits = Limits(
        seconds=10**9,
        changes=_PARTITION_CHANGES,
        serial_segments=_PARTITION_SEGMENTS,
        serial_changes=_PARTITION_CHANGES,
    )
    while from_seq < to_seq:
        room = min(_PARTITION_SEGMENTS, to_seq - from_seq)
        segments = read_segments(connection, options.source_id, from_seq, room)
        batch = plan_batch(segments, from_seq, limits)
        if batch is None:
            raise SpoolError(
                f"segment {from_seq + 1} is not in the spool any more",
                hint="Begin with another checkpoint.",
            )
        lone = frozenset(own.seq for own in segments if own.is_lone)
        found.append(_Segments(from_seq, batch.to_seq, sorted(batch.buckets), lone))
        from_seq = batch.to_seq
    return found


def _read(options: _Options, piece: _Segments) -> Iterator[tuple[Any, ...]]:
    selection = TableSelection.of(options.tables or ("*.*",))
    with (
        closing(connect(options.target, "export")) as connection,
        connection.transaction(),
    ):
        # What was planned may be gone by now, where nobody keeps it.
        segments = read_segments(
            connection, options.source_id, piece.from_seq, piece.to_seq - piece.from_seq
        )
        if len(segments) != piece.to_seq - piece.from_seq:
            raise SpoolError(
                f"segments after {piece.from_seq} are not in the spool any more",
                hint="Read a stream, for which the spool is kept.",
            )
        parts = read_parts(
            connection, options.source_id, piece.from_seq, piece.to_seq, piece.buckets
        )
        for transaction in read_transactions(parts, piece.lone):
            begin = transaction.begin
            head = (
                transaction.seq,
                str(Lsn(begin.commit_lsn)),
                datetime.fromisoformat(begin.commit_at),
            )
            for decoder, message in transaction.changes():
                name = decoder.names_of(message)
                if name == DDL_TABLE or not selection.matches(*name):
                    continue
                change = decoder.read_change(message)
                yield (
                    *head,
                    begin.xid,
                    _OPS[change.action],
                    *name,
                    None if change.old is None else dict(change.old),
                    None if change.new is None else dict(change.new),
                )
