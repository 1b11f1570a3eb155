"""Run a comparison inside the test's own process, and a target that follows its source."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.verify import VerifyOptions, VerifyReport, verify_source
from tests.support.database import Database
from tests.support.meanwhile import meanwhile
from tests.support.running.copying import make_config, slot_of


@dataclass
class Quiet:
    """A watcher that remembers, and does what a test wants done when a phase begins."""

    at: dict[str, Callable[[], Any]] = field(default_factory=dict)
    phases: list[str] = field(default_factory=list)
    shown: list[tuple[int, int, int]] = field(default_factory=list)

    def begin(self, phase: str) -> None:
        self.phases.append(phase)
        self.at.get(phase, lambda: None)()

    def show(self, done: int, total: int, source_rows: int) -> None:
        self.shown.append((done, total, source_rows))


def verify(
    target: Database, source: Database, watcher: Quiet | None = None, **options: Any
) -> VerifyReport:
    config = make_config(target, source)
    return verify_source(
        config, config.sources[source.name], VerifyOptions(**options), watcher or Quiet()
    )


def set_applied(target: Database, source: Database, lsn: str = "FFFFFFFF/FFFFFFFF") -> None:
    """Let the target say that it has applied everything up to a position."""
    target.execute(
        "insert into replication.shard_progress (source_id, shard, shard_count, applied_seq,"
        f" applied_lsn) select source_id, 0, 1, 0, '{lsn}' from replication.source"
        f" where name = '{source.name}' on conflict (source_id, shard)"
        " do update set applied_lsn = excluded.applied_lsn"
    )


def found(report: VerifyReport) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return the differences of rows as table, kind and key."""
    return {
        (table.name, difference.kind, tuple(difference.key.values()))
        for table in report.tables
        for difference in table.differences
    }


@contextmanager
def following(
    source: Database,
    target: Database,
    schemas: dict[str, str],
    begin: threading.Event | None = None,
) -> Iterator[None]:
    """Apply the slot's changes to the target, a bit late and in batches, until the block ends."""

    def run(stop: threading.Event) -> None:
        while not stop.wait(0.1):
            if begin is None or begin.is_set():
                apply_now(source, target, schemas)

    with meanwhile(run):
        yield


def apply_now(source: Database, target: Database, schemas: dict[str, str]) -> None:
    """Apply all that is committed now, and say how far that goes, in one transaction."""
    # A record of our own is on disk after all that committed before it.
    lsn = source.value("select pg_logical_emit_message(true, 'pgrepl', 'end')::text")
    messages = source.rows(
        f"select data from pg_logical_slot_get_changes('{slot_of(source)}', null, null,"
        " 'format-version', '2', 'include-lsn', '1', 'include-types', '0')"
    )
    with psycopg.connect(target.dsn()) as connection:
        connection.execute("set session_replication_role = replica")
        for (data,) in messages:
            change = json.loads(data, parse_float=str)
            if change["action"] in "IUD":
                _apply(connection, change, schemas)
        connection.execute(
            "insert into replication.shard_progress (source_id, shard, shard_count, applied_seq,"
            " applied_lsn) select source_id, 0, 1, 0, %s::pg_lsn from replication.source"
            " where name = %s on conflict (source_id, shard)"
            " do update set applied_lsn = excluded.applied_lsn",
            (lsn, source.name),
        )


def _apply(connection: psycopg.Connection, change: dict[str, Any], schemas: dict[str, str]) -> None:
    """Apply a change by its key, as an index finds it."""
    table = Identifier(schemas[change["schema"]], change["table"])
    if "identity" in change:
        where = SQL(" and ").join(
            SQL("{} = {}").format(Identifier(column["name"]), Literal(str(column["value"])))
            for column in change["identity"]
        )
        connection.execute(SQL("delete from only {} where {}").format(table, where))
    if change["action"] != "D":
        values = [None if c["value"] is None else str(c["value"]) for c in change["columns"]]
        connection.execute(
            SQL("insert into {} ({}) overriding system value values ({})").format(
                table,
                SQL(", ").join(Identifier(column["name"]) for column in change["columns"]),
                SQL(", ").join(map(Literal, values)),
            )
        )
