"""A source in the state that basebackup leaves: slot, origin and rows; ready to be received."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pgrepl.config.dsn import Side
from pgrepl.config.file import load_config
from pgrepl.decoding.wal2json.short import lines_of
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import connect
from pgrepl.postgres.encodings import python_codec
from pgrepl.publications.make import make_publications
from pgrepl.store.migrations import migrate
from tests.support.database import Database
from tests.support.machine.kept_sessions import lend_session
from tests.support.program import run_pgrepl, start_pgrepl
from tests.support.waiting import wait_until


@dataclass
class Streaming:
    """Source and target with a configuration; ``name`` is what commands take."""

    source: Database
    target: Database
    folder: Path
    #: TOML for the section of the source.
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = "shop"
    source_id: int = 0
    #: How the program reaches the target, when that is not how the test does.
    target_dsn: str = ""
    #: For another slot of the same database.
    slot_suffix: str = ""

    @property
    def slot(self) -> str:
        return f"pgrepl_{self.source.name}{self.slot_suffix}"

    @property
    def config(self) -> Path:
        return self.folder / "pgrepl.toml"

    def write_config(self, **settings: Any) -> None:
        section = {"dsn": self.source.dsn(), "slot": self.slot, **self.settings, **settings}
        target_dsn = self.target_dsn or self.target.dsn()
        lines = ["[target]", f"dsn = {json.dumps(target_dsn)}", f"[sources.{self.name}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in section.items()]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def begin(self) -> None:
        """Do what basebackup does, without the copy."""
        self.write_config()
        endpoint = self.source.endpoint(Side.SOURCE)
        plugin = self.settings.get("plugin", "wal2json")
        if plugin == "pgoutput":
            with connect(endpoint, "test") as connection:
                make_publications(connection, load_config(self.config).source(self.name))
        with connect(endpoint, "test", is_replication=True) as connection:
            ((system, timeline, _, _),) = connection.execute("IDENTIFY_SYSTEM").fetchall()
            command = (
                f"CREATE_REPLICATION_SLOT \"{self.slot}\" LOGICAL {plugin} (SNAPSHOT 'nothing')"
            )
            ((_, point, _, _),) = connection.execute(command.encode()).fetchall()
        target = self.target.endpoint(Side.TARGET)
        with connect(target, "test") as connection:
            migrate(connection, target)
            connection.execute("select pg_replication_origin_create(%s)", (self.slot,))
            connection.execute(
                "select pg_replication_origin_advance(%s, %s::pg_lsn)", (self.slot, point)
            )
            ((self.source_id,),) = connection.execute(
                "insert into replication.source (name, slot, dbname, system_identifier, timeline,"
                " state, consistent_point) values (%s, %s, %s, %s, %s, 'streaming', %s::pg_lsn)"
                " returning source_id",
                (self.name, self.slot, self.source.name, int(system), int(timeline), point),
            ).fetchall()
            selection = load_config(self.config).source(self.name).selection
            for schema, table in self.source.rows(
                "select schemaname::text, tablename::text from pg_tables"
                " where schemaname !~ '^pg_' and schemaname <> 'information_schema'"
            ):
                # Of a database in SQL_ASCII names are bytes.
                names = (
                    str(name, "utf-8") if isinstance(name, bytes) else name
                    for name in (schema, table)
                )
                if not selection.matches(*names):
                    continue
                connection.execute(
                    "insert into replication.source_table"
                    " (source_id, schema_name, table_name, state, start_lsn)"
                    " values (%s, %s, %s, 'ready', %s::pg_lsn)",
                    (self.source_id, schema, table, point),
                )

    def drop_origin(self) -> None:
        with lend_session(self.target.cluster, "postgres") as connection:
            connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
                (self.target.name,),
            )
            connection.execute(
                "select pg_replication_origin_drop(roname) from pg_replication_origin"
                " where roname = %s",
                (self.slot,),
            )

    def receive(
        self, *arguments: str, env: Mapping[str, str] | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run ``pgrepl receive`` to its end and insist on its exit code."""
        done = run_pgrepl("receive", self.name, "--config", self.config, *arguments, env=env)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def receive_once(self, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.receive("--once", code=code)

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, is_fresh: bool = False
    ) -> RunningReceiver:
        """Start a receiver, from nothing where its memory is to be measured."""
        return RunningReceiver(self, arguments, env or {}, is_fresh=is_fresh)

    def lines(self) -> list[dict[str, Any]]:
        """Return what the spool holds, changes only, in order, numbers as their text."""
        payloads = self.target.rows(
            "select payload, encoding from replication.raw_messages order by source_id, seq, part"
        )
        found = [
            json.loads(line, parse_int=str, parse_float=str)
            for payload, encoding in payloads
            for line in lines_of(payload).decode(python_codec(encoding)).split("\n")
        ]
        return [line for line in found if line["action"] != "B"]

    def messages(self, columns: str = "action, table_name, columns") -> list[tuple[Any, ...]]:
        """Return what the spool holds as people see it, in order."""
        return self.target.rows(
            f"select {columns} from replication.messages order by source, seq, part, number"
        )

    def values(self, table: str, column: str = "id") -> list[Any]:
        """Return the values of a column in the order the changes of a table were spooled."""
        return [
            next(c["value"] for c in line["columns"] if c["name"] == column)
            for line in self.lines()
            if line["table"] == table and line["action"] == "I"
        ]

    def slot_lsn(self, column: str = "confirmed_flush_lsn") -> Lsn:
        query = f"select {column}::text from pg_replication_slots where slot_name = '{self.slot}'"
        return Lsn.parse(self.source.value(query))

    def origin_lsn(self) -> Lsn:
        return Lsn.parse(
            self.target.value(f"select pg_replication_origin_progress('{self.slot}', true)::text")
        )


class RunningReceiver:
    """A receiver in a process of its own."""

    def __init__(
        self,
        streaming: Streaming,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        is_fresh: bool,
    ) -> None:
        self.log = streaming.folder / f"receive-{os.urandom(4).hex()}.log"
        self._sink = self.log.open("wb")
        command = ["receive", streaming.name, "--config", str(streaming.config), *arguments]
        self.process = start_pgrepl(*command, env=env, sink=self._sink, is_fresh=is_fresh)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._sink.close()

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def wait_streaming(self) -> Self:
        wait_until(lambda: " streaming " in self.text or self.process.poll() is not None)
        assert self.process.poll() is None, self.text
        return self

    def terminate(self, timeout_s: float = 60) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
