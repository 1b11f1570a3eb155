"""Records of topics and files, as functions of bytes: parked or refused, and nothing else."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.pgoutput.framing import unpack
from pgrepl.decoding.records.avro import AvroReader
from pgrepl.decoding.records.serialized import JsonReader, Reader
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.files.avro_blocks import AvroBlocks
from pgrepl.receiver.files.json_lines import JsonLines
from pgrepl.receiver.streams.envelopes.debezium import DebeziumUpsert
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader
from pgrepl.receiver.streams.envelopes.upsert import UpsertEnvelope
from pgrepl.receiver.streams.layouts import TableMissingError
from pgrepl.receiver.streams.record import Record
from pgrepl.receiver.streams.transactions import DebeziumTransactions
from pgrepl.receiver.streams.waiting import Memory
from tests.support.streams.debezium_events import FIXTURES
from tests.support.streams.stream_intake import Outlet, layouts_of

__all__ = [
    "avro_file",
    "avro_record",
    "debezium_record",
    "json_lines",
    "json_value",
    "upsert_record",
]

#: What stands between keys and values.
SEPARATOR = b"\xff\xfe\xff"
_TOPIC, _ENDS = "srv.public.customers", "srv.transaction"
_TABLES = {
    "customers": {"id": "integer", "name": "text", "big": "text"},
    "types": {
        "id": "integer",
        "n": "numeric",
        "n2": "numeric(30,10)",
        "f8": "double precision",
        "ts": "timestamp without time zone",
        "tstz": "timestamp with time zone",
        "d": "date",
        "t": "time without time zone",
        "by": "bytea",
        "j": "json",
        "ia": "integer[]",
        "b3": "bit(3)",
        "vb": "bit varying(5)",
        "p": "point",
        "iv": "interval",
    },
}
_SCHEMAS = json.loads((FIXTURES / "avro_schemas_by_id.json").read_text(encoding="utf-8"))


def _records(data: bytes) -> Iterator[Record]:
    """Return records: a topic's number, a key, a value, and so on."""
    pieces = data.split(SEPARATOR)
    for offset in range(0, len(pieces) - 2, 3):
        where, key, value = pieces[offset : offset + 3]
        topic = _ENDS if where == b"e" else _TOPIC
        partition = 0 if where != b"1" else 1
        parts = (part or None for part in (key, value))
        own, row = parts
        yield Record((topic, partition), offset, offset + 1, own, row, 1_700_000_000_000_000)


def _take(made: EnvelopeReader, data: bytes) -> None:
    with closing(made) as envelope:
        _take_all(envelope, data)


def _take_all(envelope: EnvelopeReader, data: bytes) -> None:
    for topic, count in ((_TOPIC, 2), (_ENDS, 1)):
        for partition in range(count):
            envelope.restore((topic, partition), {}, count)
    outlet = Outlet(limit_bytes=500)
    for record in _records(data):
        with suppress(BadValue, TableMissingError):
            envelope.take(record, outlet.gathered)
        state = dict(envelope.state_of(record.place))
        assert json.loads(json.dumps(state)) == state
    envelope.settle(outlet.gathered)
    for part in outlet.end():
        # Whatever was taken can be read again.
        assert len(unpack(part.payload[0])) > part.change_count


def upsert_record(data: bytes) -> None:
    """Take records of upserts in JSON."""
    _take(UpsertEnvelope(JsonReader(), layouts_of(_TABLES)), data)


def debezium_record(data: bytes) -> None:
    """Take events in JSON, once as upserts and once by transactions that hardly fit in memory."""
    layouts, placeholder = layouts_of(_TABLES), Placeholder()
    _take(DebeziumUpsert(JsonReader(), layouts, placeholder), data)
    _take(DebeziumTransactions(JsonReader(), layouts, placeholder, _ENDS, Memory(100)), data)


def json_value(data: bytes) -> None:
    """Read texts by a reader that knows the schemas of those before, and by one that knows none."""
    knowing = JsonReader()
    for text in data.split(SEPARATOR) * 2:
        found = []
        for reader in (knowing, JsonReader()):
            try:
                found.append(repr(reader.read(text)))
            except BadValue as exc:
                found.append(str(exc))
        assert found[0] == found[1], "a schema that is known makes another value"


def avro_record(data: bytes) -> None:
    """Take events in Avro, of schemas that a real registry had."""

    def find(number: int) -> object:
        found = _SCHEMAS.get(str(number))
        if found is None:
            raise BadValue("no such schema")
        return json.loads(found["schema"])

    reader: Reader = AvroReader(find)
    _take(DebeziumUpsert(reader, layouts_of(_TABLES), Placeholder()), data)


def avro_file(data: bytes) -> None:
    """Read a file of Avro's; offsets rise."""
    _read_file(AvroBlocks, data)


def json_lines(data: bytes) -> None:
    """Read a file of JSON lines."""
    _read_file(JsonLines, data)


def _read_file(make: type[AvroBlocks | JsonLines], data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        reader = make("t", Path(file.name), 0, ("id",))
        offset = 0
        while records := reader.read():
            for record in records:
                assert offset <= record.offset < record.next_offset <= len(data)
                offset = record.next_offset
