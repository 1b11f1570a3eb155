"""Which envelope a source has, and which format its records."""

from __future__ import annotations

from importlib import import_module

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.columns import HandlingModes
from pgrepl.decoding.records.registry import Registry
from pgrepl.decoding.records.serialized import JsonReader, Reader
from pgrepl.receiver.spool_session import SpoolSession
from pgrepl.receiver.streams.debezium import DebeziumUpsert
from pgrepl.receiver.streams.debezium_exact import DebeziumExact
from pgrepl.receiver.streams.envelope import EnvelopeReader
from pgrepl.receiver.streams.layouts import Layouts
from pgrepl.receiver.streams.target_tables import TargetTables
from pgrepl.receiver.streams.transactions import DebeziumTransactions
from pgrepl.receiver.streams.upsert import UpsertEnvelope

__all__ = ["make_envelope", "make_reader"]


def make_envelope(config: SourceConfig, spool: SpoolSession) -> EnvelopeReader:
    """Return what makes changes of the records of a source."""
    stream = config.stream
    modes = HandlingModes(stream.debezium, is_plain=stream.envelope == "upsert")
    layouts = Layouts(TargetTables(spool.endpoint, config, spool.source), modes)
    reader = make_reader(config)
    if stream.envelope == "upsert":
        return UpsertEnvelope(reader, layouts)
    text = stream.debezium.get("unavailable.value.placeholder")
    placeholder = Placeholder() if text is None else Placeholder(text)
    if stream.transaction_topic:
        return DebeziumTransactions(reader, layouts, placeholder, stream.transaction_topic)
    make = DebeziumExact if stream.envelope == "debezium" else DebeziumUpsert
    return make(reader, layouts, placeholder)


def make_reader(config: SourceConfig) -> Reader:
    """Return what reads keys and values."""
    if config.stream.format == "json":
        return JsonReader()
    registry = Registry(config.stream.registry, config.name)
    # fastavro is not everybody's.
    reader: Reader = import_module("pgrepl.decoding.records.avro").AvroReader(registry.find_schema)
    return reader
