"""A replayer as simple as can be: the copy plus the slot's changes must be the source.

It follows the one rule of ``design.md``: a change counts unless the table's copy holds it already.
An UPDATE or DELETE that does not find its one row, or an INSERT that finds one, fails: the copy and
the stream would overlap or leave a gap.
"""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.lsn import Lsn
from tests.support.database import Database


def replay_slot(source: Database, target: Database, slot: str, schemas: dict[str, str]) -> int:
    """Apply what the slot holds, and return how many changes were in the copy already."""
    starts = {
        (schema, table): (Lsn.parse(lsn), snapshot)
        for schema, table, lsn, snapshot in target.rows(
            "select schema_name, table_name, start_lsn::text, start_snapshot::text"
            " from replication.source_table"
        )
    }
    messages = source.rows(
        f"select data from pg_logical_slot_peek_changes('{slot}', null, null, 'format-version',"
        " '2', 'include-xids', '1', 'include-lsn', '1', 'include-types', '0')"
    )
    skipped = 0
    begin: dict[str, Any] = {}
    with psycopg.connect(target.dsn()) as connection:
        connection.execute("set session_replication_role = replica")
        for (data,) in messages:
            change = json.loads(data, parse_float=str)
            if change["action"] == "B":
                begin = change
            elif change["action"] in "IUD":
                lsn, snapshot = starts[change["schema"], change["table"]]
                if _is_in_copy(begin, lsn, snapshot):
                    skipped += 1
                else:
                    _apply(connection, change, schemas)
    return skipped


def _is_in_copy(begin: dict[str, Any], lsn: Lsn, snapshot: str | None) -> bool:
    if snapshot is None:
        return Lsn.parse(begin["lsn"]) < lsn
    low, high, running = snapshot.split(":")
    xid = begin["xid"]
    return xid < int(low) or (xid < int(high) and str(xid) not in running.split(","))


def _apply(connection: psycopg.Connection, change: dict[str, Any], schemas: dict[str, str]) -> None:
    table = Identifier(schemas[change["schema"]], change["table"])
    if "identity" in change:
        where = SQL(" and ").join(
            SQL("{} is not distinct from {}").format(
                Identifier(column["name"]), Literal(_text(column["value"]))
            )
            for column in change["identity"]
        )
        done = connection.execute(SQL("delete from only {} where {}").format(table, where))
        assert done.rowcount == 1, (change["action"], change["table"], done.rowcount)
    if change["action"] != "D":
        generated = connection.execute(
            "select attname::text from pg_attribute a join pg_class c on c.oid = attrelid"
            " join pg_namespace n on n.oid = relnamespace"
            " where attgenerated <> '' and nspname = %s and relname = %s",
            (schemas[change["schema"]], change["table"]),
        ).fetchall()
        columns = [column for column in change["columns"] if (column["name"],) not in generated]
        connection.execute(
            SQL("insert into {} ({}) overriding system value values ({})").format(
                table,
                SQL(", ").join(Identifier(column["name"]) for column in columns),
                SQL(", ").join(Literal(_text(column["value"])) for column in columns),
            )
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def checksums(
    database: Database, schema: str, snapshot: str | None = None
) -> dict[str, tuple[int, str]]:
    """Return rows and a checksum of each table of a schema, without its children's rows.

    As an exported snapshot shows them, if one is named.
    """
    names = database.rows(
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        f" where n.nspname = $${schema}$$ and c.relkind = 'r' and c.relpersistence = 'p' order by 1"
    )
    found = {}
    with database.connect(options="-c search_path=pg_catalog -c timezone=UTC") as connection:
        if snapshot is not None:
            connection.execute(
                SQL("begin isolation level repeatable read; set transaction snapshot {}").format(
                    Literal(snapshot)
                )
            )
        for (name,) in names:
            query = SQL(
                "select count(*), coalesce(md5(string_agg(t::text, ',' order by t::text)), '')"
                " from only {} t"
            ).format(Identifier(schema, name))
            ((count, checksum),) = connection.execute(query).fetchall()
            found[name] = (count, checksum)
    return found
