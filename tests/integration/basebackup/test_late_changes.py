"""What the source changes when its rows are copied, and the copy is not finished yet."""

from __future__ import annotations

import logging

import pytest

from tests.support.running.copying import Recorder, copy, state_of
from tests.support.running.replaying import checksums


def values_of(database, schema):
    return dict(
        database.rows(
            f"select sequencename, last_value from pg_sequences where schemaname = '{schema}'"
        )
    )


def test_sequence_that_is_gone_from_the_source_is_named_and_left(source, target, caplog):
    caplog.set_level(logging.WARNING, "pgrepl")
    source.execute(
        "create table t (id serial primary key)",
        "create table u (id serial primary key)",
        "create sequence fresh",
        "create sequence moved",
        "select setval('moved', 7, false)",
        "insert into u select from generate_series(1, 5)",
    )
    copy(target, source, Recorder({"sequences": lambda: source.execute("drop table t")}))
    assert state_of(target, source) == "streaming"
    assert "sequences that the source dropped stay: public.t_id_seq" in caplog.text
    schema = f"{source.name}_public"
    expected = {"t_id_seq": None, "u_id_seq": 5, "fresh": None, "moved": None}
    assert values_of(target, schema) == expected
    assert target.rows(f"select last_value, is_called from {schema}.moved") == [(7, False)]


def test_value_outside_the_limits_of_the_target_is_named_and_left(source, target, caplog):
    caplog.set_level(logging.WARNING, "pgrepl")
    source.execute(
        "create table t (id int primary key)",
        "create sequence a maxvalue 10",
        "create sequence b maxvalue 10",
        "select setval('b', 9)",
    )

    def widen() -> None:
        source.execute("alter sequence a maxvalue 1000", "select setval('a', 500)")

    copy(target, source, Recorder({"sequences": widen}))
    assert state_of(target, source) == "streaming"
    assert "outside their limits here stay: public.a" in caplog.text
    assert values_of(target, f"{source.name}_public") == {"a": None, "b": 9}


def test_many_sequences_are_set_a_few_at_a_time(source, target, monkeypatch):
    monkeypatch.setattr("pgrepl.basebackup.post_data._SEQUENCES_AT_ONCE", 2)
    source.execute("create table t (id int primary key)")
    for number in range(1, 6):
        source.execute(f'create sequence "S{number}"', f"select setval('\"S{number}\"', {number})")
    copy(target, source)
    assert values_of(target, f"{source.name}_public") == {f"S{n}": n for n in range(1, 6)}


@pytest.mark.parametrize("schema", ["public", "late"])
def test_table_that_became_a_partition_of_a_new_one_is_analyzed(source, target, schema):
    source.execute(
        "create table t (id int primary key)",
        "create table p (id int primary key) partition by range (id)",
        "create table p_1 partition of p for values from (1) to (100)",
        "insert into t select generate_series(1, 99)",
        "insert into p select generate_series(1, 99)",
    )

    def attach() -> None:
        source.execute(
            f"create schema if not exists {schema}",
            f"create table {schema}.newroot (id int primary key) partition by range (id)",
            f"alter table {schema}.newroot attach partition t for values from (1) to (100)",
        )

    copy(target, source, Recorder({"sequences": attach}))
    assert state_of(target, source) == "streaming"
    copied = f"{source.name}_public"
    analyzed = target.rows(
        f"select distinct tablename from pg_stats where schemaname = '{copied}' order by 1"
    )
    assert analyzed == [("p",), ("p_1",), ("t",)]
    assert checksums(target, copied)["t"] == checksums(source, "public")["t"]
