"""What is asked of the source in an ordinary session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from psycopg.rows import class_row

from pgrepl.catalog.rule_facts import find_source_problems
from pgrepl.catalog.slots import Slot, read_slot
from pgrepl.ddl_capture.source import is_capturing
from pgrepl.errors import ConfigError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.foreign_names import load_any_name
from pgrepl.postgres.queries import load_query
from pgrepl.receiver.postgres.source_session import SourceSession
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
    #: Whether it sends of failover slots only what standbys have (``synchronized_standby_slots``).
    awaits_standbys: bool = False


def read_facts(session: SourceSession) -> SourceFacts:
    """Read what must hold before streaming begins."""

    def read(connection: Connection) -> SourceFacts:
        # First: where the source stands is never before what its slot says.
        slot = read_slot(connection, session.config.slot)
        with connection.cursor(row_factory=class_row(SourceFacts)) as cursor:
            query = load_query("pgrepl.receiver.postgres", "source_facts")
            (facts,) = cursor.execute(query).fetchall()
        return replace(facts, slot=slot)

    return session.ask("cannot read the state of the slot", read)


def read_catalogue(session: SourceSession) -> Sequence[CatalogueTable]:
    """Read all tables whose changes can arrive."""

    def read(connection: Connection) -> Sequence[CatalogueTable]:
        load_any_name(connection)
        cursor = connection.cursor(row_factory=class_row(CatalogueTable))
        return cursor.execute(load_query("pgrepl.receiver.postgres", "arriving_tables")).fetchall()

    tables = session.ask("cannot read the tables", read)
    # Names may have been read otherwise than other questions read them. There is seldom another.
    session.close()
    return tables


def read_views(session: SourceSession) -> Mapping[TableName, set[TableName]]:
    """Return which relations each view reads."""

    def read(connection: Connection) -> Mapping[TableName, set[TableName]]:
        found: dict[TableName, set[TableName]] = {}
        rows = connection.execute(load_query("pgrepl.receiver.postgres", "view_relations"))
        for view_schema, view, schema, name in rows:
            found.setdefault((view_schema, view), set()).add((schema, name))
        return found

    return session.ask("cannot read the views", read)


def check_maskable(session: SourceSession) -> None:
    """Make sure that rules leave alone what finds the rows of changes, and that DDL is captured.

    Raises
    ------
    ConfigError
        when not.

    """
    config = session.config
    problems, is_captured = session.ask(
        "cannot check the rules",
        lambda connection: (find_source_problems(connection, config), is_capturing(connection)),
    )
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


def mark_end(session: SourceSession) -> Lsn:
    """Return a position that no transaction lies after which committed before this call.

    The written position would not do: a transaction with ``synchronous_commit = off`` may have
    committed beyond it. A record of our own comes after all of them, and its flush takes theirs to
    disk, where the source reads what it sends.
    """

    def mark(connection: Connection) -> Lsn:
        with connection.transaction():
            connection.execute("set local synchronous_commit = local")
            ((lsn,),) = connection.execute(
                "select pg_logical_emit_message(true, 'pgrepl', 'end')"
            ).fetchall()
        return Lsn(lsn)

    return session.ask("cannot mark the end", mark)
