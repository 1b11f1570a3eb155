"""A fresh database on a throwaway cluster, and how a test talks to it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.throwaway import Cluster


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
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()

    def value(self, query: str) -> Any:
        ((value,),) = self.rows(query)
        return value

    def make_anew(self, encoding: str, locale: str = "C") -> None:
        """Drop the database and make an empty one in another encoding or locale."""
        statement = SQL("create database {} encoding {} locale {} template template0").format(
            Identifier(self.name), Literal(encoding), Literal(locale)
        )
        with psycopg.connect(self.cluster.dsn(), autocommit=True) as connection:
            connection.execute(SQL("drop database {}").format(Identifier(self.name)))
            connection.execute(statement)

    def drop(self) -> None:
        """Remove the database with its slots and origins, whoever still uses them."""
        with psycopg.connect(self.cluster.dsn(), autocommit=True) as connection:
            # Origins belong to the whole cluster, and there are few of them.
            if connection.execute("select from pg_replication_origin limit 1").fetchall():
                self._drop_origins()
            connection.execute(
                "select pg_terminate_backend(active_pid, 10000) from pg_replication_slots"
                " where database = %s and active",
                (self.name,),
            )
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where database = %s",
                (self.name,),
            )
            connection.execute(
                SQL("drop database if exists {} with (force)").format(Identifier(self.name))
            )

    def _drop_origins(self) -> None:
        with self.connect() as connection:
            found = connection.execute("select to_regclass('replication.source') is not null")
            if found.fetchall() == [(True,)]:
                connection.execute(
                    "select pg_replication_origin_drop(roname) from pg_replication_origin"
                    " where roname in (select slot from replication.source)"
                )


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
