"""``pgrepl export``."""

from __future__ import annotations

import signal
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import SourceArgument
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.errors import UsageError
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.export.plan import ExportPlan
    from pgrepl.export.sinks.destinations import FilesDestination, KafkaDestination

__all__ = ["export"]


def export(
    invocation: Invocation,
    source: SourceArgument,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...", help="Tables as SCHEMA.TABLE; patterns may have *. Default: all."
        ),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="KAFKA|PATH",
            help="kafka://HOST:PORT[,HOST:PORT]/PREFIX of topics, or a folder for files.",
        ),
    ],
    envelope: Annotated[
        Literal["debezium", "upsert"],
        typer.Option("--envelope", help="Change events as Debezium's, or rows by key."),
    ] = "debezium",
    consumer: Annotated[
        str | None,
        typer.Option(
            "--consumer", metavar="NAME", help="Name of its position. Default: the kind of --to."
        ),
    ] = None,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="The first time, begin with the rows that there are.")
    ] = False,
    schemas: Annotated[
        bool,
        typer.Option("--schemas", help="Put Kafka Connect's schema beside each key and value."),
    ] = False,
    file_format: Annotated[
        Literal["json", "parquet", "avro"],
        typer.Option("--format", help="JSON; for files also Parquet, for topics also Avro."),
    ] = "json",
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="URL",
            envvar="PGREPL_REGISTRY",
            help="Schema registry of --format avro; the environment may hold one with a password.",
        ),
    ] = None,
    every: Annotated[
        str, typer.Option("--every", metavar="DURATION", help="Write files at most so often.")
    ] = "60s",
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            metavar="NUMBER",
            min=-1,
            help="Partitions of topics that are made; -1: what the brokers have for it.",
        ),
    ] = -1,
    kafka_settings: Annotated[
        Path | None,
        typer.Option(
            "--kafka-settings",
            metavar="FILE",
            help="Settings of librdkafka as name=value, such as security.protocol.",
        ),
    ] = None,
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="DURATION",
            help="How long the spool is kept for it while it does not move; then it is dropped.",
        ),
    ] = "7d",
    once: Annotated[
        bool, typer.Option("--once", help="End when all is exported that is in the spool now.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget the position, and begin where replay is.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Only forget the position: the spool is not kept.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Hand on what a source changed, from the spool on the target, each change exactly once.

    It has a position of its own on the target, and the spool is kept until it has passed. Runs
    until it is stopped, and goes on where it was when it is started again with the same options.
    Exits 75 when it runs already, and 40 when a change has no exact form in the envelope, or the
    spool was not kept for it any longer.
    """
    config = invocation.load_config()
    plan = _plan(
        source,
        tables or [],
        to=_destination(
            source,
            to,
            every=_duration("--every", every),
            file_format=file_format,
            registry=registry,
            partitions=partitions,
            settings=kafka_settings,
        ),
        envelope=envelope,
        consumer=consumer,
        has_snapshot=snapshot,
        has_schemas=schemas,
        keep=_duration("--keep", keep),
    )
    if forget:
        _forget(config, source, plan, json_output=json_output)
        return
    from pgrepl.export.run import Exporter

    exporter = Exporter(config, config.source(source), plan)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: exporter.stop())
    result = exporter.run(once=once, restart=restart)
    if json_output:
        print_json(
            {
                "source": source,
                "consumer": plan.consumer,
                "lsn": str(result.lsn),
                "records": result.record_count,
                "snapshot_rows": result.row_count,
                "batches": result.batch_count,
            }
        )
    else:
        rows = f"{counted(result.row_count, 'row')} of a snapshot, " if result.row_count else ""
        print_line(
            f"exported up to {result.lsn}: {rows}{counted(result.record_count, 'record')},"
            f" {counted(result.batch_count, 'batch', 'batches')}"
        )


def _plan(
    source: str,
    tables: list[str],
    *,
    to: FilesDestination | KafkaDestination,
    envelope: Literal["debezium", "upsert"],
    consumer: str | None,
    has_snapshot: bool,
    has_schemas: bool,
    keep: timedelta,
) -> ExportPlan:
    from pgrepl.export.sinks.destinations import make_plan

    try:
        return make_plan(
            source,
            to,
            tables=tables,
            envelope=envelope,
            consumer=consumer,
            has_snapshot=has_snapshot,
            has_schemas=has_schemas,
            keep=keep,
        )
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def _destination(
    source: str,
    text: str,
    *,
    every: timedelta,
    file_format: Literal["json", "parquet", "avro"],
    registry: str | None,
    partitions: int,
    settings: Path | None,
) -> FilesDestination | KafkaDestination:
    from pgrepl.export.sinks.destinations import FilesDestination, KafkaDestination
    from pgrepl.export.sinks.kafka_address import KafkaAddress

    try:
        if not text.startswith("kafka://"):
            if file_format == "avro":
                raise UsageError("--format avro is for topics", hint="Files: json or parquet.")
            return FilesDestination.parse(text, every=every, file_format=file_format)
        if file_format == "parquet":
            raise UsageError("--format parquet is for files", hint="Topics: json or avro.")
        if (file_format == "avro") != (registry is not None):
            raise UsageError("--format avro and --registry belong together")
        address = KafkaAddress.parse(
            text, prefix=source, partitions=partitions or -1, settings=settings
        )
        return KafkaDestination(address, registry)
    except ValueError as exc:
        raise UsageError(f"--to: {exc}") from exc


def _duration(option: str, text: str) -> timedelta:
    from pgrepl.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as exc:
        raise UsageError(f"{option}: {exc}") from exc


def _forget(config: Config, source: str, plan: ExportPlan, *, json_output: bool) -> None:
    from pgrepl.postgres.advisory_locks import export_lock, take_lock
    from pgrepl.postgres.connect import connect
    from pgrepl.postgres.sqlstate import translated
    from pgrepl.store.migrations import migrate
    from pgrepl.store.sources import find_source
    from pgrepl.store.spool.consumers import remove_consumer

    endpoint = config.target.endpoint
    with (
        closing(connect(endpoint, "export")) as connection,
        translated(endpoint, "cannot forget a consumer"),
    ):
        migrate(connection, endpoint)
        take_lock(connection, export_lock(source, plan.consumer))
        row = find_source(connection, config.source(source).name)
        is_there = row is not None and remove_consumer(connection, row.source_id, plan.consumer)
    if json_output:
        print_json({"source": source, "consumer": plan.consumer, "forgotten": is_there})
    else:
        word = "forgotten" if is_there else "not known"
        print_line(f"consumer {plan.consumer} of source {source}: {word}")
