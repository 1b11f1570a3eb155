"""A reader of the target that looks for what no source ever showed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import psycopg

_QUERY = """
select (select sum(amount) from {0}.debit) + (select sum(amount) from {0}.credit) = 200000
         as "sum of debit and credit",
       (select count(*) = 50 and count(distinct generation) = 1 from {0}.scratch)
         as "scratch of one generation",
       (select count(*) = 100 and count(distinct n) = 100 from {0}.plain) as "rows of plain",
       (select coalesce(bool_and(seal = md5(id || ' ' || n)), true) from {0}.items)
         as "seals of items",
       (select coalesce(bool_and(mod(c, 100) = 0), true)
          from (select count(*) c from {0}.bulk group by hundred) h) as "hundreds of bulk"
"""


class Reader:
    """Looks at each schema, again and again; ``wrong`` has what it saw."""

    def __init__(self, dsn: Callable[[], str], schemas: Sequence[str]) -> None:
        self.read_count = 0
        self.wrong: list[str] = []
        self._dsn = dsn
        self._schemas = schemas
        #: Schemas that are being copied from the start, and so not there for a moment.
        self.unready: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._dsn(), connect_timeout=5) as connection:
                    connection.execute("set lock_timeout = '2s'; set statement_timeout = '20s'")
                    connection.commit()
                    while not self._stop.wait(0.05):
                        self._look(connection)
            except psycopg.OperationalError:
                # Its server was restarted, or a table is locked.
                self._stop.wait(0.2)
            except psycopg.Error as exc:
                self.wrong.append(f"{type(exc).__name__}: {exc}")
                return

    def _look(self, connection: psycopg.Connection) -> None:
        for schema in self._schemas:
            if schema in self.unready:
                continue
            try:
                cursor = connection.execute(_QUERY.format(schema).encode())
                (row,) = cursor.fetchall()
            except psycopg.errors.UndefinedTable:
                connection.rollback()
                if schema not in self.unready:
                    self.wrong.append(f"{schema}: a table does not exist")
                continue
            connection.commit()
            if schema in self.unready:
                continue
            self.read_count += 1
            assert cursor.description is not None
            self.wrong += [
                f"{schema}: {column.name}"
                for column, is_right in zip(cursor.description, row, strict=True)
                if not is_right
            ]
