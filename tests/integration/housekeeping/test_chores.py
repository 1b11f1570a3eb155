"""Sequences, history and statistics."""

from __future__ import annotations

import logging

import pytest

from pgrepl.config.dsn import Side
from pgrepl.config.file import load_config
from pgrepl.ddl_capture import install
from pgrepl.housekeeping import Housekeeper
from pgrepl.postgres.advisory_locks import take_lock
from pgrepl.postgres.connect import connect
from pgrepl.store.sources import find_source
from tests.support.observing.bindings import publish_at
from tests.support.running.backlog import die_at
from tests.support.waiting import wait_until

ANALYZED = "select analyze_count from pg_stat_user_tables"


def last_value(household, name: str):
    return household.target.value(
        "select last_value from pg_sequences"
        f" where (schemaname, sequencename) = ('shop_public', '{name}')"
    )


def changes_since_analyze(household):
    return household.target.value(
        "select n_mod_since_analyze from pg_stat_user_tables"
        " where relid = 'shop_public.t'::regclass"
    )


def test_sequence_follows_the_source(household):
    household.execute_on_both("create sequence app.s", 'create table app."T" (id serial)')
    household.source.execute(
        "select nextval('s') from generate_series(1, 42)", 'insert into "T" default values'
    )
    household.keep_house()
    assert (last_value(household, "s"), last_value(household, "T_id_seq")) == (42, 1)
    assert household.target.value("select nextval('shop_public.s')") == 43


def test_killed_when_sequences_are_set_the_next_goes_on(household):
    household.execute_on_both("create sequence app.s")
    household.source.execute("select nextval('s') from generate_series(1, 42)")
    die_at("housekeeping.sequences_set", household.keep_house)
    assert last_value(household, "s") == 42
    household.source.execute("select nextval('s')")
    household.keep_house()
    assert last_value(household, "s") == 43


def test_sequence_never_goes_back(household):
    household.execute_on_both(
        "create sequence app.up",
        "create sequence app.down increment -1 start -1",
        "select setval('app.up', 50)",
        "select setval('app.down', -50)",
    )
    household.source.execute("select setval('up', 10)", "select setval('down', -10)")
    household.keep_house()
    assert (last_value(household, "up"), last_value(household, "down")) == (50, -50)
    household.source.execute("select setval('up', 60)", "select setval('down', -60)")
    household.keep_house()
    assert (last_value(household, "up"), last_value(household, "down")) == (60, -60)


def test_sequence_that_was_never_drawn_from_stays_so(household):
    household.execute_on_both("create sequence app.s")
    household.keep_house()
    assert last_value(household, "s") is None


def test_sequences_that_the_target_does_not_have_or_cannot_hold_are_left_out(household):
    household.source.execute(
        "create sequence only_here",
        "create sequence s",
        "select setval('only_here', 7), setval('s', 7)",
    )
    household.target.execute("create sequence shop_public.s maxvalue 5")
    household.execute_on_both("create sequence app.t")
    household.source.execute("select setval('t', 9)")
    household.keep_house()
    assert (last_value(household, "s"), last_value(household, "t")) == (None, 9)


def test_source_that_is_down_keeps_nobody_from_the_rest(household, caplog):
    household.target.execute(
        "create table shop_public.parent (id int primary key)",
        "create table shop_public.child (p int references shop_public.parent)",
    )
    household.streaming.settings = {"dsn": "host=127.0.0.1 port=1 dbname=x password=hunter2"}
    with caplog.at_level(logging.WARNING):
        household.keep_house()
    (record,) = caplog.records
    assert 'source "shop": cannot connect' in record.getMessage()
    assert "hunter2" not in caplog.text
    indexes = "select count(*) from pg_index where indrelid = 'shop_public.child'::regclass"
    assert household.target.value(indexes) == 1


def test_target_that_is_gone_is_no_error_of_replay(household, caplog):
    household.config()
    row = household.row
    path = household.streaming.config
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(household.target.dsn(), "host=127.0.0.1 port=1"))
    keeper = Housekeeper(load_config(path))
    with caplog.at_level(logging.WARNING):
        keeper.caught_up(row)
        keeper.stop(None)
    assert "target: cannot connect" in caplog.text


def test_history_goes_when_it_is_old(household):
    source_id = household.streaming.source_id
    household.target.execute(
        f"insert into replication.binding values"
        f" ({source_id}, now() - interval '3 d', '0/100'),"
        f" ({source_id}, now() - interval '2 d', '0/200'),"
        f" ({source_id}, now() - interval '1 h', '0/300')",
        "insert into replication.parked_history"
        " (at, source, schema_name, table_name, action, change_count) values"
        " (now() - interval '2 d', 'shop', 's', 't', 'park', 1),"
        " (now() - interval '1 h', 'shop', 's', 't', 'skip', 1),"
        " (now() - interval '2 d', 'crm', 's', 't', 'park', 1)",
    )
    household.keep_house(history="1d")
    # The binding that holds at the horizon stays.
    lsns = household.target.rows("select lsn::text from replication.binding order by at")
    assert lsns == [("0/200",), ("0/300",)]
    kept = household.target.rows("select source, action from replication.parked_history order by 1")
    assert kept == [("crm", "park"), ("shop", "skip")]


def test_history_of_ddl_goes_too(household):
    source_id = household.streaming.source_id
    household.target.execute(
        "insert into replication.ddl_history"
        " (source_id, log_id, commit_lsn, commit_at, at, outcome, tag, role)"
        f" select {source_id}, days, '0/1', now(), now() - days * interval '1 d', 'applied',"
        " 'CREATE TABLE', 'app' from unnest(array[1, 29, 31]) days"
    )
    household.keep_house()
    kept = "select log_id from replication.ddl_history order by 1"
    assert household.target.rows(kept) == [(1,), (29,)]
    # What is young and not there would be taken for one that is still to be applied.
    household.keep_house(history="1h")
    assert household.target.rows(kept) == [(1,)]


def test_log_of_captured_ddl_is_kept_short(household):
    install(household.config().source(household.row.name))
    household.source.execute("create table old ()")
    household.source.execute("update pgrepl.ddl_log set stmt_at = now() - interval '8 days'")
    household.source.execute("create table young ()")
    household.keep_house()
    rows = household.source.rows("select query from pgrepl.ddl_log")
    assert rows == [("create table young ()",)]


@pytest.mark.parametrize(("rows", "is_analyzed"), [(20_000, True), (500, False)])
def test_table_that_changed_much_is_analyzed(household, rows, is_analyzed):
    household.target.execute(
        "create table shop_public.t (id int) with (autovacuum_enabled = false)",
        f"insert into shop_public.t select generate_series(1, {rows})",
    )
    wait_until(lambda: changes_since_analyze(household) == rows)
    household.keep_house()
    assert household.target.value(f"{ANALYZED} where relname = 't'") == int(is_analyzed)
    estimate = "select reltuples from pg_class where relname = 't'"
    assert household.target.value(estimate) == (rows if is_analyzed else -1)


def test_table_that_changed_little_of_much_is_not_analyzed(household):
    household.target.execute(
        "create table shop_public.t (id int) with (autovacuum_enabled = false)",
        "insert into shop_public.t select generate_series(1, 200000)",
    )
    # A session counts what it changed when it ends.
    wait_until(lambda: changes_since_analyze(household) == 200_000)
    household.target.execute("analyze shop_public.t")
    household.target.execute("update shop_public.t set id = 0 where id <= 15000")
    wait_until(lambda: changes_since_analyze(household) == 15_000)
    household.keep_house()
    assert household.target.value(f"{ANALYZED} where relname = 't'") == 1


def test_house_is_kept_once_in_an_interval(household):
    household.execute_on_both("create sequence app.s")
    household.source.execute("select setval('s', 5)")
    keeper = Housekeeper(household.config(), interval_s=3600)
    for value in (6, 7):
        keeper.caught_up(household.row)
        keeper.stop(None)
        household.source.execute(f"select setval('s', {value})")
    assert last_value(household, "s") == 5


def test_every_source_gets_its_turn(household, stream_from, make_database):
    source = make_database(household.source.cluster, prefix="source")
    source.execute("create sequence s")
    source.execute("select setval('s', 3)")
    crm = stream_from(source, name="crm")
    household.target.execute(
        "create schema crm_public",
        f"insert into replication.target_schema values ('crm_public', {crm.source_id}, 'public')",
        "create sequence crm_public.s",
    )
    household.execute_on_both("create sequence app.s")
    household.source.execute("select setval('s', 5)")
    household.config()
    with household.streaming.config.open("a", encoding="utf-8") as file:
        file.write(f'[sources.crm]\ndsn = "{source.dsn()}"\nslot = "{crm.slot}"\n')
    keeper = Housekeeper(load_config(household.streaming.config))
    with connect(household.target.endpoint(Side.TARGET), "test") as connection:
        for name in ("shop", "crm"):
            row = find_source(connection, name)
            assert row is not None
            keeper.caught_up(row)
    keeper.stop(None)
    assert last_value(household, "s") == 5
    assert household.target.value("select last_value from crm_public.s") == 3


def test_newest_binding_survives_any_history(household):
    publish_at(household.target, household.streaming.source_id, 0x200)
    household.keep_house(history="0s")
    assert household.target.value("select count(*) from replication.binding") == 1


def test_only_one_housekeeper_is_at_work(household):
    household.execute_on_both("create sequence app.s")
    household.source.execute("select setval('s', 5)")
    with connect(household.target.endpoint(Side.TARGET), "test") as connection:
        take_lock(connection, "housekeeping")
        household.keep_house()
        assert last_value(household, "s") is None
    household.keep_house()
    assert last_value(household, "s") == 5


def test_stopping_without_work_is_nothing(household):
    keeper = Housekeeper(household.config())
    keeper.stop()
    keeper.stop(None)
