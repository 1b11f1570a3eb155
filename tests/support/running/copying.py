"""Run a basebackup inside the test's own process, with one Spark session for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgrepl.basebackup.report import CopyOptions, CopyReport, Phase
from pgrepl.basebackup.run import copy_source
from pgrepl.config.dsn import Dsn
from pgrepl.config.model import (
    Config,
    Plugin,
    ReplayConfig,
    SourceConfig,
    SparkConfig,
    TargetConfig,
)
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.store.tables.copy_work import TableProgress
from tests.support.database import Database

SQL = Path(__file__).parents[1] / "sql"


@dataclass
class Recorder:
    """A watcher that remembers, and does what a test wants done when a phase begins."""

    at: Mapping[Phase, Callable[[], Any]] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    shown: list[Sequence[TableProgress]] = field(default_factory=list)

    def begin(self, phase: Phase) -> None:
        self.phases.append(phase)
        if phase in self.at:
            self.at[phase]()

    def show(self, tables: Sequence[TableProgress]) -> None:
        self.shown.append(tables)


def make_config(
    target: Database,
    *sources: Database,
    schema: str = "{db}_{schema}",
    trust_code: bool = False,
    plugin: Plugin = "wal2json",
) -> Config:
    return Config(
        path=Path("pgrepl.toml"),
        target=TargetConfig(dsn=Dsn(target.dsn())),
        spark=SparkConfig(master="local[2]"),
        replay=ReplayConfig(),
        sources={
            source.name: SourceConfig(
                name=source.name,
                dsn=Dsn(source.dsn()),
                slot=slot_of(source),
                schema=SchemaTemplate(schema),
                selection=TableSelection.of(["*.*"]),
                trust_code=trust_code,
                plugin=plugin,
            )
            for source in sources
        },
    )


def slot_of(source: Database) -> str:
    return f"pgrepl_{source.name}"


def copy_source_of(config: Config, name: str) -> CopyReport:
    return copy_source(config, config.sources[name], CopyOptions(), Recorder())


def copy(
    target: Database,
    source: Database,
    watcher: Recorder | None = None,
    *,
    trust_code: bool = False,
    plugin: Plugin = "wal2json",
    **options: Any,
) -> CopyReport:
    config = make_config(target, source, trust_code=trust_code, plugin=plugin)
    return copy_source(
        config,
        config.sources[source.name],
        CopyOptions(**options),
        watcher if watcher is not None else Recorder(),
    )


def state_of(target: Database, source: Database) -> str | None:
    rows = target.rows(f"select state from replication.source where name = '{source.name}'")
    return rows[0][0] if rows else None


def has_slot(source: Database) -> bool:
    return bool(
        source.rows(f"select from pg_replication_slots where slot_name = '{slot_of(source)}'")
    )


def structure(database: Database, schemas: Sequence[str], prefix: str = "") -> set[tuple[str, ...]]:
    """Return all there is to know about some schemas, with the target's prefix taken off."""
    query = (SQL / "structure.sql").read_text().replace("%s", "%%s").encode()
    with database.connect(options="-c search_path=pg_catalog") as connection:
        rows = connection.execute(query, {"schemas": [prefix + name for name in schemas]})
        return {tuple(str(value).replace(prefix, "") for value in row) for row in rows}


def make_objects(source: Database, target: Database) -> None:
    """Make objects and rows of every kind on a source, and what they need on its target."""
    source.execute((SQL / "objects.sql").read_text(), (SQL / "objects_rows.sql").read_text())
    target.execute(
        "create schema extensions",
        "create extension hstore schema extensions",
        "create extension citext",
        "create extension btree_gist",
    )
