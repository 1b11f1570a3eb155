"""Where exports go, as the command line says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from pgrepl.config.naming import TableSelection
from pgrepl.decoding.records.registry import Registry
from pgrepl.errors import ConfigError
from pgrepl.export.envelopes.envelope import EnvelopeName, make_envelope
from pgrepl.export.plan import ExportPlan, MakeSink
from pgrepl.export.record import RecordWriter
from pgrepl.export.sinks.file_formats import (
    FileFormat,
    FormatName,
    JsonLinesFormat,
    ParquetFormat,
)
from pgrepl.export.sinks.files import FileSink
from pgrepl.export.sinks.json_records import JsonWriter
from pgrepl.export.sinks.kafka_address import KafkaAddress
from pgrepl.export.sinks.sink import Sink
from pgrepl.store.spool.consumers import Consumer, ConsumerKind

__all__ = ["FilesDestination", "KafkaDestination", "make_plan"]


@dataclass(frozen=True, slots=True)
class FilesDestination:
    """A folder."""

    path: Path
    every: timedelta
    format: FormatName = "json"

    @classmethod
    def parse(
        cls, text: str, *, every: timedelta, file_format: FormatName = "json"
    ) -> FilesDestination:
        """Read the path of a folder.

        Raises
        ------
        ValueError
            when it is none.

        """
        if "://" in text:
            raise ValueError(f'"{text}" is neither kafka://… nor the path of a folder')
        return cls(Path(text).absolute(), every, file_format)


@dataclass(frozen=True, slots=True)
class KafkaDestination:
    """Topics of a cluster, in JSON, or in Avro with a registry."""

    address: KafkaAddress
    #: Its address, which may hold name and password.
    registry: str | None = field(default=None, repr=False)


def make_plan(
    source: str,
    destination: FilesDestination | KafkaDestination,
    *,
    tables: Sequence[str],
    envelope: EnvelopeName,
    consumer: str | None,
    has_snapshot: bool,
    has_schemas: bool,
    keep: timedelta,
) -> ExportPlan:
    """Return what is exported, and to where.

    Raises
    ------
    ValueError
        when a pattern is none.

    """
    TableSelection.of(tables)
    kind: ConsumerKind
    options: dict[str, Any] = {"schemas": has_schemas}
    if isinstance(destination, KafkaDestination):
        kind, place, pause_s = "kafka", str(destination.address), 0.0
        prefix = destination.address.prefix
        options["format"] = "json" if destination.registry is None else "avro"
    else:
        kind, place, pause_s = "files", str(destination.path), destination.every.total_seconds()
        prefix = source
        options["format"] = destination.format
    name = consumer or kind

    def make_sink(consumer: Consumer, *, is_restart: bool) -> Sink:
        if isinstance(destination, KafkaDestination):
            make = _kafka_sink(destination, source, has_schemas=has_schemas)
            return make(consumer, is_restart=is_restart)
        is_new = consumer.state == "starting" and consumer.prepared is None
        file_format: FileFormat = (
            ParquetFormat()
            if destination.format == "parquet"
            else JsonLinesFormat(has_schemas=has_schemas)
        )
        return FileSink(destination.path, name, file_format, is_new=is_new)

    return ExportPlan(
        consumer=name,
        kind=kind,
        destination=place,
        envelope=envelope,
        tables=tuple(tables),
        options=options,
        keep=keep,
        has_snapshot=has_snapshot,
        pause_s=pause_s,
        make_sink=make_sink,
        # Parquet has numbers and lists as Avro has them.
        make_envelope=lambda db: make_envelope(
            envelope, prefix, db, is_avro=options["format"] != "json"
        ),
    )


def _kafka_sink(destination: KafkaDestination, source: str, *, has_schemas: bool) -> MakeSink:
    """Return what makes the sink for Kafka; only who writes there needs the packages for it."""
    try:
        make = import_module("pgrepl.export.sinks.kafka").KafkaSink
        writer: RecordWriter = JsonWriter(has_schemas=has_schemas)
        if destination.registry is not None:
            make_avro = import_module("pgrepl.export.sinks.avro_records").AvroWriter
            writer = make_avro(Registry(destination.registry, source))
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("pgrepl"):
            raise
        raise ConfigError(
            f"package {exc.name} is missing, which an export to Kafka needs",
            hint="Install pgrepl with it: pip install 'pgrepl[kafka]'",
        ) from exc

    def make_sink(consumer: Consumer, *, is_restart: bool) -> Sink:
        sink: Sink = make(destination.address, source, consumer, writer, is_restart=is_restart)
        return sink

    return make_sink
