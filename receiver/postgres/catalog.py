"""Ordinary sessions on the source: short ones, opened when there is something to ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from psycopg.rows import class_row

from pgrepl.catalog.rule_facts import find_source_problems
from pgrepl.catalog.slots import Slot, read_slot
from pgrepl.config.model import SourceConfig
from pgrepl.ddl_capture.source import is_capturing
from pgrepl.errors import ConfigError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.foreign_names import load_any_name
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.routing import CatalogueTable, TableName
from pgrepl.terminal import command

__all__ = [
    "SourceFacts",
    "check_maskable",
    "mark_end",
    "read_catalogue",
    "read_facts",
    "read_views",
]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A row of ``sql/source_facts.sql``, and the slot; None when there is none."""

    encoding: str
    is_standby: bool
    flush_lsn: Lsn | None
    #: 0: the source waits for ever.
    wal_sender_timeout_s: float
    slot: Slot | None = None


def read_facts(config: SourceConfig) -> SourceFacts:
    """Read what must hold before streaming begins."""
    with _session(config, "cannot read the state of the slot") as connection:
        # First: where the source stands is never before what its slot says.
        slot = read_slot(connection, config.slot)
        with connection.cursor(row_factory=class_row(SourceFacts)) as cursor:
            query = load_query("pgrepl.receiver.postgres", "source_facts")
            (facts,) = cursor.execute(query).fetchall()
        return replace(facts, slot=slot)


def read_catalogue(config: SourceConfig) -> Sequence[CatalogueTable]:
    """Read all tables whose changes can arrive."""
    with _session(config, "cannot read the tables") as connection:
        load_any_name(connection)
        cursor = connection.cursor(row_factory=class_row(CatalogueTable))
        return cursor.execute(load_query("pgrepl.receiver.postgres", "arriving_tables")).fetchall()


def read_views(config: SourceConfig) -> Mapping[TableName, set[TableName]]:
    """Return which relations each view reads."""
    found: dict[TableName, set[TableName]] = {}
    with _session(config, "cannot read the views") as connection:
        rows = connection.execute(load_query("pgrepl.receiver.postgres", "view_relations"))
        for view_schema, view, schema, name in rows:
            found.setdefault((view_schema, view), set()).add((schema, name))
    return found


def check_maskable(config: SourceConfig) -> None:
    """Make sure that rules leave alone what finds the rows of changes, and that DDL is captured.

    Raises
    ------
    ConfigError
        when not.

    """
    with _session(config, "cannot check the rules") as connection:
        problems = find_source_problems(connection, config)
        is_captured = is_capturing(connection)
    broken = [str(problem) for problem in problems if problem.stops_receive]
    if broken:
        raise ConfigError(
            f'the rules of source "{config.name}" cannot hold for changes: {"; ".join(broken)}',
            hint="Choose other rules in pgrepl.toml, or exclude the tables; see docs/rules.md.",
        )
    if not is_captured:
        raise ConfigError(
            f'source "{config.name}" has rules, and no DDL is captured there: nobody would notice'
            " that a table or column gets another name",
            hint=f"Run: {command('ddl', 'install', config.name)}",
        )


def mark_end(config: SourceConfig) -> Lsn:
    """Return a position that no transaction lies after which committed before this call.

    The written position would not do: a transaction with ``synchronous_commit = off`` may have
    committed beyond it. A record of our own comes after all of them, and its flush takes theirs to
    disk, where the source reads what it sends.
    """
    with _session(config, "cannot mark the end") as connection, connection.transaction():
        connection.execute("set local synchronous_commit = local")
        ((lsn,),) = connection.execute(
            "select pg_logical_emit_message(true, 'pgrepl', 'end')"
        ).fetchall()
        return Lsn(lsn)


@contextmanager
def _session(config: SourceConfig, action: str) -> Iterator[Connection]:
    with connect(config.endpoint, "receive") as connection, translated(config.endpoint, action):
        yield connection
