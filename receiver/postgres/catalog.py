"""Ordinary sessions on the source: short ones, opened when there is something to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.config.model import SourceConfig
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.foreign_names import load_any_name
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.routing import CatalogueTable

__all__ = ["SourceFacts", "mark_end", "read_catalogue", "read_facts"]


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """A row of ``sql/source_facts.sql``; the slot's columns are None when there is no slot."""

    encoding: str
    is_standby: bool
    flush_lsn: Lsn | None
    #: 0: the source waits for ever.
    wal_sender_timeout_s: float
    slot_plugin: str | None
    slot_dbname: str | None
    confirmed_flush_lsn: Lsn | None
    #: Where the source has to begin to decode.
    restart_lsn: Lsn | None
    wal_status: str | None
    #: Whether standbys keep it too; None before PostgreSQL 17.
    is_failover: bool | None = None


def read_facts(config: SourceConfig) -> SourceFacts:
    """Read what must hold before streaming begins."""
    with _session(config, "cannot read the state of the slot") as connection:
        with connection.cursor(row_factory=class_row(SourceFacts)) as cursor:
            query = load_query("pgrepl.receiver.postgres", "source_facts")
            (facts,) = cursor.execute(query, {"slot": config.slot}).fetchall()
        return facts


def read_catalogue(config: SourceConfig) -> Sequence[CatalogueTable]:
    """Read all tables whose changes can arrive."""
    with _session(config, "cannot read the tables") as connection:
        load_any_name(connection)
        cursor = connection.cursor(row_factory=class_row(CatalogueTable))
        return cursor.execute(load_query("pgrepl.receiver.postgres", "arriving_tables")).fetchall()


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
