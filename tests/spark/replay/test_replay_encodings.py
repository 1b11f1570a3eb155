"""Sources in other encodings than the target's, and one with bytes that are no text there."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, decide, install
from tests.support.running.backlog import control
from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: A lone byte of LATIN1, which is no character in UTF-8.
E_ACUTE = r"E'\xe9'"


@pytest.fixture
def make_source(source_cluster, make_database):
    def make(encoding: str):
        database = make_database(source_cluster, prefix=encoding.lower())
        database.make_anew(encoding)
        return database

    return make


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1251", "EUC_JP"])
@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_every_text_arrives_in_the_targets_encoding(make_source, target, encoding, consistency):
    one, other = {"LATIN1": ("é", "ÿ"), "WIN1251": ("Я", "ж"), "EUC_JP": ("日", "本")}[encoding]
    source = make_source(encoding)
    with source.connect(client_encoding="UTF8") as connection:
        connection.execute(f'create table "t{one}" (id text primary key, "c{other}" text)'.encode())
        connection.execute("create table plain (id text)")
        connection.execute("alter table plain replica identity full")
        connection.execute(f"insert into \"t{one}\" values ('{one}', 'x')".encode())
        pipeline = Pipeline(source, target, {"consistency": consistency})
        pipeline.copy()
        for statement in (
            f"insert into \"t{one}\" select '{other}' || g, '{one}\\' from generate_series(1, 5) g",
            f"update \"t{one}\" set \"c{other}\" = '{other}' where id = '{one}'",
            f"update \"t{one}\" set id = '{one}{one}' where id = '{other}2'",
            f"delete from \"t{one}\" where id = '{other}3'",
            f"insert into plain values ('{one}'), ('{one}'), (null)",
            f"begin; truncate plain; insert into plain values ('{other}'); commit",
        ):
            connection.execute(statement.encode())
        pipeline.apply()
        for table in (f"t{one}", "plain"):
            there = connection.execute(f'select * from "{table}" order by id collate "C"'.encode())
            query = f'select * from {pipeline.schema()}."{table}" order by id collate "C"'
            assert sorted(target.rows(query)) == sorted(there.fetchall())


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_table_with_a_value_that_is_no_text_is_parked_and_the_others_go_on(
    make_source, target, consistency
):
    source = make_source("SQL_ASCII")
    source.execute(
        "create table bad (id int primary key, note text)",
        "create table good (id int primary key, note text)",
    )
    pipeline = Pipeline(source, target, {"consistency": consistency})
    pipeline.copy()
    source.execute(
        f"insert into bad values (1, {E_ACUTE})",
        "insert into good values (1, 'ü')",
        # A transaction of its own kind, with both of them.
        f"begin; truncate good; insert into good values (2, 'ü');"
        f" insert into bad values (2, {E_ACUTE}); commit",
        "insert into good values (3, 'ü')",
    )
    pipeline.receive()
    result = pipeline.replay()
    assert result.error is None
    assert result.parked == [("public", "bad")]
    assert pipeline.parked() == [
        ("bad", "a value has bytes that are not valid in the encoding (SQLSTATE 22021)")
    ]
    schema = pipeline.schema()
    assert target.rows(f"select id, note from {schema}.good order by 1") == [(2, "ü"), (3, "ü")]
    assert target.value(f"select count(*) from {schema}.bad") == 0
    kept = target.rows("select format, encoding, payload from replication.parked_message")
    assert {row[:2] for row in kept} == {("wal2json", "SQL_ASCII")}
    assert sum(row[2].count(b'"value":"\xe9"') for row in kept) == 2


def test_character_that_the_target_does_not_have_parks_its_table(
    source, target_cluster, make_database
):
    target = make_database(target_cluster, prefix="latin")
    target.make_anew("LATIN1")
    source.execute(
        "create table bad (id int primary key, note text)",
        "create table good (id int primary key, note text)",
    )
    pipeline = Pipeline(source, target)
    pipeline.copy()
    source.execute("insert into bad values (1, '☃')", "insert into good values (1, 'é')")
    pipeline.receive()
    assert pipeline.replay().error is None
    ((name, reason),) = pipeline.parked()
    assert (name, "the target's encoding does not have (SQLSTATE 22P05)" in reason) == ("bad", True)
    assert target.rows(f"select id, note from {pipeline.schema()}.good") == [(1, "é")]
    assert target.value("select count(*) from replication.messages") == 0


def test_ddl_with_bytes_that_are_no_text_waits_for_a_person(make_source, target):
    source = make_source("SQL_ASCII")
    source.execute("create table t (id int primary key, note text)")
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(f"alter table t alter note set default {E_ACUTE}", "insert into t values (1)")
    pipeline.receive()
    result = pipeline.replay()
    assert (result.error, result.parked) == (None, [("public", "t")])
    ((_, reason),) = pipeline.parked()
    assert "it has bytes that are not valid in the encoding" in reason
    with control(pipeline) as connection:
        decide(connection, source.name, "skip")
    assert pipeline.replay().parked == [("public", "t")]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_names_that_are_no_text_concern_their_tables_alone(make_source, target, plugin):
    source = make_source("SQL_ASCII")
    source.execute(
        "create table good (id int primary key)", "create table widened (id int primary key)"
    )
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.copy()
    with source.connect(client_encoding="SQL_ASCII") as connection:
        for statement in (
            b'create table "bad\xe9" (id int primary key)',
            b'insert into "bad\xe9" values (1)',
            b"insert into good values (1)",
            b'alter table widened add "c\xe9" int',
            b"insert into widened values (1, 1)",
            b'truncate good, "bad\xe9"',
            b"insert into good values (2)",
        ):
            connection.execute(statement)
    pipeline.receive()
    assert target.value("select count(*) from replication.messages") == 6
    result = pipeline.replay()
    assert (result.error, result.parked) == (None, [("public", "widened")])
    ((_, reason),) = pipeline.parked()
    assert 'has no column "c? (not text: ' in reason
    assert target.rows(f"select id from {pipeline.schema()}.good") == [(2,)]
    ((name, reason),) = target.rows(
        "select table_name::text, resync_reason from replication.source_table"
        " where state = 'pending'"
    )
    assert (name[:14], reason) == ("bad? (not text", "it has changes but was never copied")


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_ddl_with_names_that_the_target_does_not_have_waits_alone(
    source, target_cluster, make_database, plugin
):
    target = make_database(target_cluster, prefix="latin")
    target.make_anew("LATIN1")
    source.execute(
        "create table good (id int primary key)",
        "create table widened (id int primary key)",
        "create table renamed (id int primary key)",
    )
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        'create table "☃" (id int primary key)',
        'insert into "☃" values (1)',
        'alter table widened add "☃" int',
        "insert into widened values (1, 1)",
        'alter table renamed rename to "☃☃"',
        'insert into "☃☃" values (1)',
        "alter table good add more int default 4 /* ☃ */",
        "insert into good values (1, 1)",
        'begin; insert into "☃" values (2); truncate good; insert into good values (2, 2); commit',
    )
    pipeline.receive()
    result = pipeline.replay()
    assert result.error is None
    assert ("public", "widened") in result.parked
    assert ("public", "good") not in result.parked
    assert result.waiting_ddl == 3
    assert target.rows(f"select id, more from {pipeline.schema()}.good") == [(2, 2)]
    assert target.value(f"select count(*) from {pipeline.schema()}.widened") == 0
