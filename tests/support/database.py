"""A fresh database on a throwaway cluster, and how a test talks to it."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.throwaway import Cluster
from tests.support.machine.kept_sessions import hang_up, lend_session
from tests.support.waiting import wait_until

#: What holds for sessions that begin later.
_FOR_NEW_SESSIONS = re.compile(r"\balter\s+(database|role|user|system)\b", re.IGNORECASE)

_OWNERS_OF_NOTHING = """
    select r.rolname from pg_roles r
     where r.rolname like 'pgrepl\\_%' and not r.rolcanlogin
       and not exists (select from pg_shdepend d
                        where d.refclassid = 'pg_authid'::regclass and d.refobjid = r.oid)
"""


@dataclass(frozen=True, slots=True)
class Database:
    cluster: Cluster
    name: str

    def dsn(self, **parameters: str) -> str:
        return self.cluster.dsn(self.name, **parameters)

    def endpoint(self, side: Side, **parameters: str) -> Endpoint:
        return Endpoint(side, self.name, Dsn(self.dsn(**parameters)))

    def connect(self, **parameters: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn(**parameters), autocommit=True)

    def execute(self, *statements: str) -> None:
        """Run statements, each on its own, as the superuser."""
        with lend_session(self.cluster, self.name) as session:
            for statement in statements:
                wait_until(partial(_has_run, session, statement.encode()))
        if any(map(_FOR_NEW_SESSIONS.search, statements)):
            hang_up(self.cluster)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with lend_session(self.cluster, self.name) as session:
            return session.execute(query.encode()).fetchall()

    def value(self, query: str) -> Any:
        ((value,),) = self.rows(query)
        return value

    def create(self, template: str = "template1") -> None:
        """Make it, a copy of the template with all its tables and rows."""
        hang_up(self.cluster, template)
        # To copy files takes less than to write every page to the WAL.
        statement = SQL("create database {} template {} strategy file_copy").format(
            Identifier(self.name), Identifier(template)
        )
        with lend_session(self.cluster, "postgres") as session:
            session.execute(statement)

    def make_anew(self, encoding: str, locale: str = "C") -> None:
        """Drop the database and make an empty one in another encoding or locale."""
        statement = SQL("create database {} encoding {} locale {} template template0").format(
            Identifier(self.name), Literal(encoding), Literal(locale)
        )
        hang_up(self.cluster, self.name)
        with lend_session(self.cluster, "postgres") as session:
            session.execute(SQL("drop database {}").format(Identifier(self.name)))
            session.execute(statement)

    def drop(self) -> None:
        """Remove the database with its slots and origins, whoever still uses them."""
        with lend_session(self.cluster, "postgres") as session:
            # Origins belong to the whole cluster, and there are few of them.
            if session.execute("select from pg_replication_origin limit 1").fetchall():
                self._drop_origins()
            hang_up(self.cluster, self.name)
            session.execute(
                "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots"
                " where database = %s and active",
                (self.name,),
            )
            session.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where database = %s",
                (self.name,),
            )
            session.execute(
                SQL("drop database if exists {} with (force)").format(Identifier(self.name))
            )
            # So do roles: one that owned the copies of a source would be in the way of the next
            # test whose source has the same name.
            for (role,) in session.execute(_OWNERS_OF_NOTHING).fetchall():
                session.execute(SQL("drop role {}").format(Identifier(role)))

    def _drop_origins(self) -> None:
        # psycopg does not know every encoding that a database may have.
        with self.connect(client_encoding="UTF8") as session:
            found = session.execute("select to_regclass('replication.source') is not null")
            if found.fetchall() == [(True,)]:
                session.execute(
                    "select pg_replication_origin_drop(roname) from pg_replication_origin"
                    " where roname in (select slot from replication.source)"
                )


def _has_run(session: psycopg.Connection[tuple[Any, ...]], statement: bytes) -> bool:
    """Run a statement; false when it needs a slot or origin that a process which ended still has.

    The session of such a process ends a moment after it.
    """
    try:
        session.execute(statement)
    except psycopg.errors.ObjectInUse:
        if session.info.transaction_status is not TransactionStatus.IDLE:
            raise
        return False
    return True


@dataclass(frozen=True)
class KeptDatabase(Database):
    """A database whose sessions stay open, for tests that ask many small questions."""

    _open: dict[str, psycopg.Connection[tuple[Any, ...]]] = field(default_factory=dict)

    def connect(self, **parameters: str) -> Any:
        key = self.dsn(**parameters)
        if key not in self._open:
            self._open[key] = psycopg.connect(key, autocommit=True)
        return nullcontext(self._open[key])

    def drop(self) -> None:
        for connection in self._open.values():
            connection.close()
        Database(self.cluster, self.name).drop()
