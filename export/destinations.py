"""Where exports go, as the command line says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from pgrepl.config.naming import TableSelection
from pgrepl.errors import ConfigError
from pgrepl.export.envelope import EnvelopeName, make_envelope
from pgrepl.export.files import JsonLines
from pgrepl.export.kafka_address import KafkaAddress
from pgrepl.export.plan import ExportPlan
from pgrepl.export.sink import Sink
from pgrepl.store.consumers import Consumer, ConsumerKind

__all__ = ["FilesDestination", "KafkaDestination", "make_plan"]


@dataclass(frozen=True, slots=True)
class FilesDestination:
    """A folder."""

    path: Path
    every: timedelta

    @classmethod
    def parse(cls, text: str, *, every: timedelta) -> FilesDestination:
        """Read the path of a folder.

        Raises
        ------
        ValueError
            when it is none.

        """
        if "://" in text:
            raise ValueError(f'"{text}" is neither kafka://… nor the path of a folder')
        return cls(Path(text).absolute(), every)


@dataclass(frozen=True, slots=True)
class KafkaDestination:
    """Topics of a cluster."""

    address: KafkaAddress


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
    if isinstance(destination, KafkaDestination):
        kind, place, pause_s = "kafka", str(destination.address), 0.0
        prefix = destination.address.prefix
    else:
        kind, place, pause_s = "files", str(destination.path), destination.every.total_seconds()
        prefix = source
    name = consumer or kind

    def make_sink(row: Consumer) -> Sink:
        if isinstance(destination, KafkaDestination):
            return _kafka_sink(destination.address, source, row, has_schemas=has_schemas)
        is_new = row.state == "starting" and row.prepared is None
        return JsonLines(destination.path, name, has_schemas=has_schemas, is_new=is_new)

    return ExportPlan(
        consumer=name,
        kind=kind,
        destination=place,
        envelope=envelope,
        tables=tuple(tables),
        options={"schemas": has_schemas},
        keep=keep,
        has_snapshot=has_snapshot,
        pause_s=pause_s,
        make_sink=make_sink,
        make_envelope=lambda db: make_envelope(envelope, prefix, db),
    )


def _kafka_sink(
    address: KafkaAddress, source: str, consumer: Consumer, *, has_schemas: bool
) -> Sink:
    """Return what writes to Kafka; only who does needs the packages for it."""
    try:
        make = import_module("pgrepl.export.kafka").KafkaSink
    except ModuleNotFoundError as exc:
        if (exc.name or "").startswith("pgrepl"):
            raise
        raise ConfigError(
            f"package {exc.name} is missing, which an export to Kafka needs",
            hint="Install pgrepl with it: pip install 'pgrepl[kafka]'",
        ) from exc
    sink: Sink = make(address, source, consumer, has_schemas=has_schemas)
    return sink
