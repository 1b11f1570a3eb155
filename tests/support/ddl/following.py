"""A source whose DDL is captured, and a replayer as simple as can be that follows it.

It reads the slot, takes one target transaction for each of the source's, applies rows one by one in
their order and hands rows of ``pgrepl.ddl_log`` to the applier. Nothing is copied beforehand: all
that the target has came through the stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.config.dsn import Dsn
from pgrepl.config.model import (
    Config,
    DdlConfig,
    ReplayConfig,
    SourceConfig,
    SparkConfig,
    TargetConfig,
)
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.config.rules import Rules
from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture import Applier, install
from pgrepl.errors import DdlStopped
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.store.migrations import migrate
from pgrepl.store.sources import find_source
from tests.support.database import Database
from tests.support.ddl.own_names import own_names
from tests.support.running.copying import structure
from tests.support.running.replaying import checksums

NAME = "shop"
SQL_FOLDER = Path(__file__).parents[1] / "sql"


@dataclass(frozen=True)
class Place:
    """A replicated table on the target."""

    table: Identifier
    generated: Sequence[str]


@dataclass
class Following:
    """Source and target, and the way between."""

    source: Database
    target: Database
    tables: Sequence[str] = ("*.*",)
    exclude: Sequence[str] = ()
    include: Sequence[str] = ()
    trust_code: bool = False
    #: The role that applies; it is no superuser.
    target_role: str | None = None
    name: str = NAME
    #: What stands before a schema's name on the target.
    prefix: str = "tgt_"
    rules: Rules = field(default_factory=Rules)
    applier: Applier = field(init=False)
    #: Transactions of the slot that are not applied yet.
    _waiting: list[list[dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.applier = Applier(self.config)

    @property
    def slot(self) -> str:
        return f"pgrepl_{self.source.name}"

    @property
    def config(self) -> Config:
        parameters = {"user": self.target_role} if self.target_role else {}
        source = SourceConfig(
            name=self.name,
            dsn=Dsn(self.source.dsn()),
            slot=self.slot,
            schema=SchemaTemplate(self.prefix + "{schema}"),
            selection=TableSelection.of(self.tables, self.exclude),
            trust_code=self.trust_code,
            rules=self.rules,
        )
        return Config(
            path=Path("pgrepl.toml"),
            target=TargetConfig(dsn=Dsn(self.target.dsn(**parameters))),
            spark=SparkConfig(),
            replay=ReplayConfig(),
            sources={self.name: source},
            ddl=DdlConfig(include=tuple(self.include)),
        )

    def begin(self) -> Following:
        """Do what basebackup does for a source without tables, and capture from there on."""
        with self._connect() as connection:
            migrate(connection, self.config.target.endpoint)
            point = self.source.value(
                f"select lsn::text from pg_create_logical_replication_slot('{self.slot}',"
                " 'wal2json')"
            )
            connection.execute(
                "insert into replication.source (name, slot, dbname, system_identifier, timeline,"
                " state, consistent_point) values (%s, %s, %s, 1, 1, 'streaming', %s::pg_lsn)",
                (self.name, self.slot, self.source.name, point),
            )
        install(self.config.source(self.name))
        return self

    def _connect(self) -> Connection:
        connection = connect(self.config.target.endpoint, "test")
        # As in the session that replay applies DDL in.
        connection.prepare_threshold = None
        return connection

    def run(self, *messages: str) -> None:
        """Run client messages on the source, each as it is, in one session; then follow."""
        # What a session sets must not reach the next one.
        with psycopg.connect(self.source.dsn(), autocommit=True) as connection:
            for message in messages:
                connection.execute(message.encode())
        self.follow()

    def follow(self) -> None:
        """Apply what was committed on the source; a transaction that stops is kept for later."""
        self._receive()
        with self._connect() as connection:
            while self._waiting:
                self._apply(connection, self._waiting[0])
                del self._waiting[0]

    def forget_stops(self) -> None:
        """Go on after whatever an earlier test may have stopped at."""
        self._receive()
        self._waiting.clear()
        self.target.execute("delete from replication.ddl_pending")
        # It lets the slot forget the WAL before, which is decoded again otherwise.
        self.source.execute("checkpoint")

    def start_over(self) -> None:
        """Begin with no schema on either side, whatever tests before have left."""
        ours = "nspname !~ '^pg_' and nspname not in ('information_schema', 'public', 'pgrepl')"
        _drop_schemas(self.source, ours)
        _drop_schemas(self.target, f"nspname ~ '^{self.prefix}'")
        self.target.execute(
            "delete from replication.source_table",
            "delete from replication.target_schema",
            "delete from replication.target_table",
        )
        self.forget_stops()

    def _receive(self) -> None:
        rows = self.source.rows(
            f"select data from pg_logical_slot_get_changes('{self.slot}', null, null,"
            " 'format-version', '2', 'include-xids', '1', 'include-lsn', '1',"
            " 'include-timestamp', '1', 'include-types', '0')"
        )
        for (data,) in rows:
            line = json.loads(data, parse_int=str, parse_float=str)
            if line["action"] == "B":
                self._waiting.append([line])
            elif line["action"] in "IUDT":
                self._waiting[-1].append(line)

    def _apply(self, connection: Connection, lines: Sequence[dict[str, Any]]) -> None:
        source = find_source(connection, self.name)
        assert source is not None
        captured = CapturedDdl(
            source=source,
            commit_lsn=Lsn.parse(lines[0]["lsn"]),
            commit_at=lines[0]["timestamp"],
            row={},
        )
        rows = [
            {c["name"]: _text(c["value"]) for c in line["columns"]}
            for line in lines[1:]
            if (line["schema"], line["table"]) == ("pgrepl", "ddl_log") and line["action"] == "I"
        ]
        captured = replace(captured, read_rows=lambda: rows)
        try:
            with connection.transaction():
                connection.execute("set local session_replication_role = replica")
                places: dict[tuple[str, str], Place | None] = {}
                for line in lines[1:]:
                    key = (line["schema"], line["table"])
                    if key != ("pgrepl", "ddl_log"):
                        if key not in places:
                            places[key] = self._find_place(connection, *key)
                        apply_row(connection, line, places[key])
                    elif line["action"] == "I":
                        places.clear()
                        row = {c["name"]: _text(c["value"]) for c in line["columns"]}
                        captured = replace(captured, row=row)
                        self.applier.apply(connection, captured)
        except DdlStopped as stopped:
            self.applier.record_stop(connection, captured, stopped)
            raise

    def _find_place(self, connection: Connection, schema: str, table: str) -> Place | None:
        found = connection.execute(
            "select t.target_schema::text, coalesce(x.target_name, s.table_name)::text,"
            " array(select attname::text from pg_attribute where attrelid = format('%%I.%%I',"
            " t.target_schema, coalesce(x.target_name, s.table_name))::regclass"
            " and attgenerated <> '')"
            " from replication.source r join replication.source_table s using (source_id)"
            " left join replication.target_table x using (source_id, schema_name, table_name)"
            " join replication.target_schema t on t.source_id = s.source_id"
            " and t.source_schema = s.schema_name"
            " where r.name = %s and s.schema_name = %s and s.table_name = %s"
            " and s.state = 'ready'",
            (self.name, schema, table),
        ).fetchone()
        return None if found is None else Place(Identifier(*found[:2]), found[2])

    def problems(self, *schemas: str) -> list[Any]:
        """Return what differs in structure or rows; an empty list is what a test wants."""
        with own_names(self.target):
            return self._problems(*schemas)

    def _problems(self, *schemas: str) -> list[Any]:
        prefix = self.prefix
        mine = _without_values(structure(self.source, schemas)) | more(self.source, schemas)
        theirs = _without_values(structure(self.target, schemas, prefix)) | more(
            self.target, schemas, prefix
        )
        found: list[Any] = [("source", *row) for row in sorted(mine - theirs)]
        found += [("target", *row) for row in sorted(theirs - mine)]
        for schema in schemas:
            here, there = checksums(self.source, schema), checksums(self.target, prefix + schema)
            found += [
                ("rows", schema, name, here.get(name), there.get(name))
                for name in sorted(here.keys() | there.keys())
                if here.get(name) != there.get(name)
            ]
        return found

    def history(self, columns: str = "outcome, tag") -> list[tuple[Any, ...]]:
        return self.target.rows(f"select {columns} from replication.ddl_history order by entry")

    def pending(self, columns: str = "tag, error") -> list[tuple[Any, ...]]:
        return self.target.rows(f"select {columns} from replication.ddl_pending order by log_id")

    def resyncs(self) -> dict[str, str]:
        return dict(
            self.target.rows(
                "select table_name::text, resync_reason from replication.source_table"
                " where resync_reason is not null"
            )
        )


def _drop_schemas(database: Database, which: str) -> None:
    found = database.rows(f"select nspname::text from pg_namespace where {which}")
    if found:
        names = SQL(", ").join(Identifier(name) for (name,) in found)
        with database.connect() as connection:
            connection.execute(SQL("drop schema {} cascade").format(names))


def more(database: Database, schemas: Sequence[str], prefix: str = "") -> set[tuple[str, ...]]:
    """Return what DDL changes and a copy does not carry over: plain indexes and the like."""
    with database.connect(options="-c search_path=pg_catalog") as connection:
        rows = connection.execute(
            (SQL_FOLDER / "more_structure.sql").read_text(encoding="utf-8").encode(),
            {"schemas": [prefix + name for name in schemas]},
        )
        return {tuple(str(value).replace(prefix, "") for value in row) for row in rows}


def _without_values(rows: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Take off how far a sequence has counted, which is no DDL."""
    return {
        (kind, name, " ".join(detail.split(" ")[:3]) if kind == "sequence" else detail)
        for kind, name, detail in rows
    }


def apply_row(connection: Connection, line: Mapping[str, Any], place: Place | None) -> None:
    """Apply a change; one of a table that is not replicated is none."""
    if place is None:
        return
    table = place.table
    if line["action"] == "T":
        connection.execute(SQL("truncate {}").format(table))
        return
    if "identity" in line:
        where = SQL(" and ").join(
            SQL("{} is not distinct from {}").format(
                Identifier(column["name"]), Literal(_text(column["value"]))
            )
            for column in line["identity"]
        )
        done = connection.execute(
            SQL(
                "delete from only {table} where ctid = any (array(select ctid from only {table}"
                " where {where} limit 1))"
            ).format(table=table, where=where)
        )
        assert done.rowcount == 1, (line["action"], line["table"], done.rowcount)
    if line["action"] != "D":
        columns = [column for column in line["columns"] if column["name"] not in place.generated]
        connection.execute(
            SQL("insert into {} ({}) overriding system value values ({})").format(
                table,
                SQL(", ").join(Identifier(column["name"]) for column in columns),
                SQL(", ").join(Literal(_text(column["value"])) for column in columns),
            )
            if columns
            else SQL("insert into {} default values").format(table)
        )


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def run_as(database: Database, role: str, *messages: str) -> None:
    with psycopg.connect(database.dsn(user=role), autocommit=True) as connection:
        for message in messages:
            connection.execute(message.encode())
