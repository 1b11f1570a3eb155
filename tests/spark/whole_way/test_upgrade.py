"""What the version before has spooled and parked is applied to its end after an upgrade."""

from __future__ import annotations

import json

import pytest

from pgrepl.config.dsn import Side
from pgrepl.ddl_capture import Applier
from pgrepl.postgres.connect import connect
from pgrepl.replayer.parked.parked_tables import find_parked
from pgrepl.replayer.parked.work_off import retry_table
from pgrepl.replayer.session import open_session
from pgrepl.store import migrations
from pgrepl.store.spool.spool_format import bucket_of
from tests.support.running.pipeline import QUICK, Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: The first step that the version before does not know.
SPOOL_BYTES = 12


def spool_as_before(pipeline: Pipeline, parked: str) -> None:
    """Write what waits in the slot as receivers did whose spool was text; one table is parked."""
    source, target = pipeline.source, pipeline.target
    messages = source.rows(
        f"select data from pg_logical_slot_peek_changes('pgrepl_{source.name}', null, null,"
        " 'format-version', '2', 'include-xids', '1', 'include-timestamp', '1', 'include-lsn', '1',"
        " 'include-origin', '1', 'include-types', '0', 'add-msg-prefixes', 'pgrepl')"
    )
    seq = 0
    begin, end = "", {}
    parts: dict[int, list[str]] = {}
    with target.connect() as connection:
        connection.execute(
            "insert into replication.parked_table (source_id, schema_name, table_name, reason)"
            " select source_id, 'public', %s, 'a reason' from replication.source",
            (parked,),
        )
        for (line,) in messages:
            message = json.loads(line)
            if message["action"] == "B":
                begin, parts = line, {}
            elif message["action"] == "C":
                end = message
                seq += bool(parts)
                write_parts(connection, seq, parts, message)
            elif message["table"] == parked:
                write_parked(connection, message, f"{begin}\n{line}")
            else:
                bucket = bucket_of(source.name, message["schema"], message["table"])
                # From its TRUNCATE on this transaction has no other table.
                if message["action"] == "T" or -1 in parts:
                    bucket = -1
                parts.setdefault(bucket, [begin]).append(line)
        connection.execute(
            "insert into replication.receive_progress (source_id, last_seq, received_lsn)"
            " select source_id, %s, %s::pg_lsn from replication.source",
            (seq, end["nextlsn"]),
        )
        connection.execute(
            "select pg_replication_origin_advance(%s, %s::pg_lsn)",
            (f"pgrepl_{source.name}", end["nextlsn"]),
        )


def write_parts(connection, seq: int, parts: dict[int, list[str]], end: dict[str, str]) -> None:
    for number, (bucket, lines) in enumerate(parts.items()):
        payload = "\n".join(lines)
        connection.execute(
            "insert into replication.raw_messages (source_id, seq, bucket, part, kind, first_lsn,"
            " last_lsn, first_commit_at, last_commit_at, change_count, is_last, payload_bytes,"
            " payload) select source_id, %s, %s, %s, %s, %s::pg_lsn, %s::pg_lsn, %s::timestamptz,"
            " %s::timestamptz, %s, %s, %s, %s from replication.source",
            (
                *(seq, bucket, number, "serial" if bucket < 0 else "parallel"),
                *(end["lsn"], end["nextlsn"], end["timestamp"], end["timestamp"]),
                *(len(lines) - 1, number == len(parts) - 1, len(payload.encode()), payload),
            ),
        )


def write_parked(connection, change: dict[str, str], payload: str) -> None:
    connection.execute(
        "insert into replication.parked_message (source_id, schema_name, table_name, seq, part,"
        " piece, first_lsn, last_lsn, last_commit_at, change_count, payload)"
        " select source_id, 'public', %s, 0, 0, 0, %s::pg_lsn, %s::pg_lsn, now(), 1, %s"
        " from replication.source",
        (change["table"], change["lsn"], change["lsn"], payload),
    )


def test_spool_of_the_version_before_is_applied_to_its_end(source, bare_target, monkeypatch):
    source.execute(
        "create table t (id int primary key, note text)",
        "create table u (id int primary key)",
        "create table p (id int primary key, note text)",
        "insert into t values (1, 'one'), (2, 'two')",
        "insert into p values (1, 'one')",
    )
    older = [step for step in migrations.known_migrations() if step.version < SPOOL_BYTES]
    monkeypatch.setattr(migrations, "known_migrations", lambda: older)
    pipeline = Pipeline(source, bare_target)
    with connect(bare_target.endpoint(Side.TARGET), "test") as connection:
        migrations.migrate(connection, bare_target.endpoint(Side.TARGET))
    # Today's basebackup writes them, and later steps make them.
    bare_target.execute(
        "alter table replication.source_table add source_oid bigint, add unsent_changes bigint",
        "alter table replication.source add plugin text, add rules jsonb",
        "create table replication.target_table"
        " (source_id int, schema_name name, table_name name, target_name name)",
    )
    pipeline.copy()
    bare_target.execute(
        "alter table replication.source_table drop source_oid, drop unsent_changes",
        "alter table replication.source drop plugin, drop rules",
        "drop table replication.target_table",
    )
    source.execute(
        r"begin; insert into t values (3, E'ü ☃ \n \" \\ \x01'); insert into u values (1); commit",
        "begin; truncate u; insert into u values (2); commit",
        "insert into p values (2, 'ü')",
        "update t set note = 'later' where id = 1",
    )
    spool_as_before(pipeline, parked="p")
    monkeypatch.undo()
    source.execute(
        "insert into t values (4, 'after the upgrade')", "update p set note = 'ü☃' where id = 1"
    )
    pipeline.receive()
    result = pipeline.replay()
    assert (result.error, result.parked) == (None, [("public", "p")])
    assert pipeline.spool_count() == 0
    assert pipeline.differences() == ["p"]
    with open_session(pipeline.config.target.endpoint, QUICK) as connection:
        table = find_parked(connection, source.name, "public.p")
        ddl = Applier(pipeline.config)
        assert retry_table(connection, pipeline.config, table, ddl, QUICK) == 2
    assert pipeline.differences() == []
