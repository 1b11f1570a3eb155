"""Rows of the table of captured DDL, as the applier takes them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pgrepl.ddl import CapturedDdl
from pgrepl.decoding.changes import INSERT
from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.lsn import Lsn
from pgrepl.replayer.serial.line_replay import Lines
from pgrepl.replayer.target_table import TableName
from pgrepl.store.sources import SourceRow
from pgrepl.store.spool.spool_format import DDL_TABLE

__all__ = ["is_row", "make_captured", "read_rows"]

_FOREIGN_BYTES = "it has bytes that are not valid in the encoding"

Row = Mapping[str, str | None]


def is_row(lines: Lines) -> bool:
    """Whether a change of the table is a captured row; old ones are pruned on the source."""
    return lines.decoder.action_of(lines.changes[0]) == INSERT


def make_captured(
    source: SourceRow,
    lines: Lines,
    read_rows: Callable[[], Iterable[Row]],
    worked_off: frozenset[TableName] = frozenset(),
) -> CapturedDdl:
    """Return what the applier needs to know of one row."""
    decoder = lines.decoder
    transaction = decoder.read_begin(lines.begin)
    row, problem = _read_row(decoder, lines.changes[0])
    return CapturedDdl(
        source=source,
        commit_lsn=Lsn(transaction.commit_lsn),
        commit_at=transaction.commit_at,
        row=row,
        problem=problem,
        worked_off=worked_off,
        read_rows=read_rows,
    )


def read_rows(decoder: PayloadDecoder, payload: bytes) -> Iterator[Row]:
    """Yield the captured rows in a payload."""
    for message in decoder.split(payload):
        if decoder.is_begin(message) or decoder.action_of(message) != INSERT:
            continue
        if decoder.names_of(message) == DDL_TABLE:
            yield _read_row(decoder, message)[0]


def _read_row(decoder: PayloadDecoder, message: bytes) -> tuple[Row, str | None]:
    """Return a row, and what is wrong with it if something is."""
    try:
        return decoder.read_row(message), None
    except UnicodeDecodeError:
        return decoder.read_row(message, "replace"), _FOREIGN_BYTES
