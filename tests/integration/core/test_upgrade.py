"""The schema of every version before migrates forward, with a spool in flight."""

from __future__ import annotations

import json
import re

import pytest
from _pytest.mark import ParameterSet

from pgrepl.config.dsn import Side
from pgrepl.errors import SchemaVersionError
from pgrepl.postgres.connect import connect
from pgrepl.store import migrations
from pgrepl.store.migrations import known_migrations, migrate
from tests.support.database import Database
from tests.support.messages.lines import begin, change

#: A step that touches what is written here.
SPOOLED = re.compile("raw_messages|receive_progress|replication.messages")
#: The first version that has a spool.
SPOOL = 2
PAYLOAD = b"\n".join([begin(0x100), change("I", "t", id="1", note="ü ☃ \n \\"), change("D", "u")])


@pytest.fixture
def target(bare_target: Database) -> Database:
    """Return a target that the test migrates."""
    return bare_target


def migrate_target(target: Database) -> None:
    endpoint = target.endpoint(Side.TARGET)
    with connect(endpoint, "test") as connection:
        migrate(connection, endpoint)


def write(target: Database, table: str, **values: object) -> None:
    """Write a row, of the given values those that the version has columns for."""
    types = dict(
        target.rows(
            "select column_name::text, data_type::text from information_schema.columns"
            f" where table_schema = 'replication' and table_name = '{table}'"
        )
    )
    given = {name: value for name, value in values.items() if name in types}
    if types.get("payload") == "text":
        given["payload"] = PAYLOAD.decode()
    with target.connect() as connection:
        connection.execute(
            f"insert into replication.{table} ({', '.join(given)})"
            f" values ({', '.join('%s' for _ in given)})".encode(),
            list(given.values()),
        )


def write_spool(target: Database) -> None:
    lsns = {"first_lsn": "0/100", "last_lsn": "0/130"}
    times = dict.fromkeys(("first_commit_at", "last_commit_at"), "2026-11-16 02:26:30+00")
    write(
        target,
        "source",
        name="shop",
        slot="pgrepl_shop",
        dbname="shop",
        system_identifier=1,
        timeline=1,
        state="streaming",
        consistent_point="0/50",
        plugin="wal2json",
    )
    write(target, "source_table", source_id=1, schema_name="public", table_name="t")
    write(
        target,
        "raw_messages",
        source_id=1,
        seq=7,
        bucket=3,
        part=0,
        kind="parallel",
        is_last=True,
        change_count=2,
        payload=PAYLOAD,
        payload_bytes=len(PAYLOAD),
        **{"format": "wal2json", "encoding": "UTF8", **lsns, **times},
    )
    write(target, "receive_progress", source_id=1, last_seq=7, received_lsn="0/130")


def versions() -> list[ParameterSet]:
    """Return all versions; where the next step leaves the spool alone, in soak."""
    steps = known_migrations()[SPOOL:]
    return [
        pytest.param(
            step.version - 1,
            marks=[] if step is steps[-1] or SPOOLED.search(step.sql) else pytest.mark.soak,
        )
        for step in steps
    ]


@pytest.mark.parametrize("version", versions())
def test_spool_and_progress_survive_the_upgrade_from(target, monkeypatch, version):
    older = tuple(step for step in known_migrations() if step.version <= version)
    monkeypatch.setattr(migrations, "known_migrations", lambda: older)
    migrate_target(target)
    write_spool(target)
    monkeypatch.undo()
    migrate_target(target)
    assert target.rows("select payload, format, encoding from replication.raw_messages") == [
        (PAYLOAD, "wal2json", "UTF8")
    ]
    shown = target.rows(
        "select action, table_name, columns from replication.messages order by number"
    )
    assert [row[:2] for row in shown] == [("I", "t"), ("D", "u")]
    values = shown[0][2] if isinstance(shown[0][2], list) else json.loads(shown[0][2])
    assert [column["value"] for column in values] == ["1", "ü ☃ \n \\"]
    assert target.rows("select last_seq, received_lsn::text from replication.receive_progress") == [
        (7, "0/130")
    ]
    # The program of the version before leaves it alone.
    monkeypatch.setattr(migrations, "known_migrations", lambda: older)
    with pytest.raises(SchemaVersionError, match=f"knows versions up to {version}"):
        migrate_target(target)
