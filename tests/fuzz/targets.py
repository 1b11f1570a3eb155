"""What reads bytes that others wrote, each as a function of bytes that a fuzzer can call.

A target returns, or raises an error of the tree in ``core/errors.py``. Anything else is a bug, and
so is a wrong value where a target can tell: what is compiled must read what Python reads.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import ModuleType

from pgrepl.config.file import load_config
from pgrepl.ddl_capture.decode.ddl_texts import ddl_texts
from pgrepl.ddl_capture.decode.event import decode_event
from pgrepl.ddl_capture.decode.filled import FILLED, find_filled_table
from pgrepl.ddl_capture.decode.statement import UnknownStatementError, find_statement
from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.decoding.pgoutput import PgoutputPayload, PgoutputStream, by_table
from pgrepl.decoding.shape import Column, Shape
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.decoding.wal2json import Wal2JsonPayload, Wal2JsonStream, table_changes
from pgrepl.decoding.wal2json.short import lines_of
from pgrepl.errors import PgreplError, SpoolError
from pgrepl.native import native
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.slot.protocol import decode_keepalive
from pgrepl.store.spool.spool_format import bucket_of
from pgrepl.syntax.parse import SqlSyntaxError, parse
from pgrepl.syntax.remap import ConfinedMap, RemapError, SchemaMap, remap
from tests.fuzz import record_targets
from tests.support.messages.assembling import make_assembler
from tests.support.messages.routing import take_by_core, take_by_python
from tests.support.observing.shown_config import shown_config

__all__ = ["TARGETS"]

#: What stands between the messages of an input, and between the count and the payload.
_SEPARATOR = b"\xff\xfe\xff"
_AT = b"@"
_SHAPE = Shape(
    "target",
    "t",
    "r",
    [
        Column(name, "text", False, is_identity_always=False, staging_type=None)
        for name in ("id", "note")
    ],
    ("id",),
)
_MAPPED = {"shop": "db_shop", "Größe": "db_Größe"}, {("shop", "citext"): "public"}
_NAMES, _CONFINED = SchemaMap(*_MAPPED), ConfinedMap(*_MAPPED)


class _Table:
    """A table that changes are applied to."""

    start = None
    is_applied = True
    shape = _SHAPE


def _keepalive(data: bytes) -> None:
    decode_keepalive(memoryview(data))


def _stream(make: Callable[[], StreamDecoder], data: bytes) -> None:
    """Receive frames, as they come from a server, by Python and by what is compiled."""
    frames = [_frame(message) for message in data.split(_SEPARATOR)]
    ways = (take_by_python,) if native is None else (take_by_python, take_by_core)
    found = [_receive(take, make(), frames) for take in ways]
    assert all(own == found[0] for own in found), "what is compiled receives what Python does not"


def _frame(message: bytes) -> memoryview:
    """Return a frame; a message says its position after an at sign, or is at none."""
    if not message.startswith(_AT):
        return memoryview(b"w" + bytes(24) + message)
    return memoryview(b"w" + message[1:9].ljust(24, b"\0") + message[9:])


def _receive(
    take: Callable[[Assembler, list[memoryview]], object],
    decoder: StreamDecoder,
    frames: list[memoryview],
) -> tuple[object, ...]:
    assembler = make_assembler(decoder, ["bi.*"], limit_bytes=1 << 10, has_special_values=True)
    error = None
    try:
        take(assembler, frames)
        assembler.flush()
    except PgreplError as exc:
        error = exc.message
    state = assembler.received, assembler.is_in_transaction, assembler.is_finished
    return [repr(batch) for batch in assembler.ready], error, state, assembler.has_segment


def _read(decoder: PayloadDecoder, data: bytes) -> object:
    """Read a row of the spool; what stands first is the count of its changes."""
    grouped = decoder.group_by_table(lambda _: _Table())
    grouped.take_payload(data[1:], data[0] if data else 0, bucket_of("db", "public", "t"))
    if any(changes.problem is not None for changes in grouped.changes.values()):
        raise SpoolError("a table is parked")
    return {name: changes.count for name, changes in grouped.changes.items()}


def _read_by_both(module: ModuleType, decoder: PayloadDecoder, data: bytes) -> bool:
    """Read a row of the spool as what is compiled does and as Python does; whether they could."""
    found = []
    for core in (native, None):
        setattr(module, "native", core)  # noqa: B010  mypy: no attribute of any module
        try:
            found.append(_read(decoder, data))
        except PgreplError:
            found.append(None)
        finally:
            setattr(module, "native", native)  # noqa: B010
    assert found[0] == found[1], "what is compiled reads what Python does not, or not as it does"
    return found[0] is not None


def _pgoutput_payload(data: bytes) -> None:
    if _read_by_both(by_table, PgoutputPayload("UTF8"), data):
        _as_people_see_it(PgoutputPayload("UTF8"), data[1:], data[1:])


def _wal2json_payload(data: bytes) -> None:
    _read_by_both(table_changes, Wal2JsonPayload("UTF8"), data)
    # Of short ones people see what they were made of.
    _as_people_see_it(Wal2JsonPayload("UTF8"), data[1:], lines_of(data[1:]))


def _as_people_see_it(decoder: PayloadDecoder, payload: bytes, seen: bytes) -> None:
    messages = decoder.split(payload)
    assert decoder.join(messages) == seen
    for message in messages:
        if decoder.is_begin(message):
            decoder.read_begin(message)


def _ddl_event(data: bytes) -> None:
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return  # the row itself comes from a decoder
    if not isinstance(row, dict) or not all(isinstance(own, str | None) for own in row.values()):
        return
    event = decode_event(row)
    ddl_texts(event)
    # Both are errors that callers expect, here and below: the statement waits for a person.
    with suppress(UnknownStatementError, SqlSyntaxError):
        find_statement(event)
        if event.tag in FILLED:
            find_filled_table(event)
    repr(event).encode()


def _remap(data: bytes) -> None:
    text = data.decode("utf-8", "replace").replace("\0", " ")
    with suppress(SqlSyntaxError):
        statements = parse(text)
        for statement, names in product(statements, (_NAMES, _CONFINED)):
            with suppress(RemapError):
                renamed = remap(statement, names, text if len(statements) == 1 else None).sql
                assert len(parse(renamed)) == 1


def _config(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        config = load_config(Path(file.name))
    # What is shown of it is TOML.
    tomllib.loads(shown_config(config))


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "avro_file": record_targets.avro_file,
    "avro_record": record_targets.avro_record,
    "config": _config,
    "ddl_event": _ddl_event,
    "debezium_record": record_targets.debezium_record,
    "json_lines": record_targets.json_lines,
    "json_value": record_targets.json_value,
    "keepalive": _keepalive,
    "pgoutput_payload": _pgoutput_payload,
    "pgoutput_stream": lambda data: _stream(PgoutputStream, data),
    "remap": _remap,
    "upsert_record": record_targets.upsert_record,
    "wal2json_payload": _wal2json_payload,
    "wal2json_stream": lambda data: _stream(Wal2JsonStream, data),
}
