"""Which reader the records of a source need."""

from __future__ import annotations

from importlib import import_module

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.records.registry import Registry
from pgrepl.decoding.records.serialized import JsonReader, Reader

__all__ = ["make_reader"]


def make_reader(config: SourceConfig) -> Reader:
    """Return what reads keys and values."""
    # Files say their format themselves; what they hold comes read already.
    if config.stream.format == "json":
        return JsonReader()
    registry = Registry(config.stream.registry, config.name)
    # fastavro is an optional dependency.
    reader: Reader = import_module("pgrepl.decoding.records.avro").AvroReader(registry.find_schema)
    return reader
