"""Indexes on foreign keys, made while others work."""

from __future__ import annotations

import logging

import pytest

from pgrepl.housekeeping import INDEX_PREFIX, Housekeeper
from tests.support.running.backlog import die_at
from tests.support.waiting import wait_until

PARENT = "create table shop_public.parent (id int primary key, a int, b int, unique (a, b))"
# An index shows as being made before it is in the catalogue; an attempt leaves nothing until then.
BEING_MADE = f"select count(*) from pg_class where relname like '{INDEX_PREFIX}%'"
PAIR = "foreign key (a, b) references shop_public.parent (a, b)"


def indexed(household):
    """Return the tables and columns that pgrepl's own indexes are on."""
    return household.target.rows(
        "select t.relname::text, (select array_agg(a.attname::text order by a.attnum)"
        " from pg_attribute a where a.attrelid = i.indexrelid)"
        " from pg_index i join pg_class x on x.oid = i.indexrelid"
        " join pg_class t on t.oid = i.indrelid"
        f" where x.relname like '{INDEX_PREFIX}%' and i.indisvalid order by 1, 2"
    )


@pytest.mark.parametrize(
    ("child", "columns"),
    [
        ("p int references shop_public.parent", [["p"]]),
        ("p int primary key references shop_public.parent", []),
        ("p int references shop_public.parent, x int, primary key (p, x)", []),
        ("p int references shop_public.parent, x int, primary key (x, p)", [["p"]]),
        (
            "p int references shop_public.parent, q int references shop_public.parent",
            [["p"], ["q"]],
        ),
        ("a int, b int, foreign key (b, a) references shop_public.parent (b, a)", [["b", "a"]]),
        (f"a int, b int, primary key (b, a), {PAIR}", []),
        (f"a int, b int, primary key (a) include (b), {PAIR}", [["a", "b"]]),
        (
            'p int references shop_public.parent, "odd ""Name" int references shop_public.parent',
            [['odd "Name'], ["p"]],
        ),
        (
            "p int references shop_public.parent, foreign key (p) references shop_public.parent",
            [["p"]],
        ),
    ],
)
def test_foreign_key_gets_the_index_that_is_missing(household, child, columns):
    household.target.execute(PARENT, f"create table shop_public.child ({child})")
    household.keep_house()
    assert indexed(household) == [("child", names) for names in columns]
    household.keep_house()
    assert indexed(household) == [("child", names) for names in columns]


def test_index_that_serves_only_some_rows_does_not_count(household):
    household.target.execute(
        PARENT,
        "create table shop_public.child (p int references shop_public.parent)",
        "create index on shop_public.child (p) where p > 0",
        "create index on shop_public.child ((p + 1))",
    )
    household.keep_house()
    assert indexed(household) == [("child", ["p"])]


def test_partitions_are_indexed_one_by_one(household):
    household.target.execute(
        PARENT,
        "create table shop_public.child (p int references shop_public.parent)"
        " partition by range (p)",
        "create table shop_public.child_1 partition of shop_public.child"
        " for values from (0) to (9)",
        "create table shop_public.child_2 partition of shop_public.child default",
        "create index on shop_public.child_2 (p)",
    )
    household.keep_house()
    assert indexed(household) == [("child_1", ["p"])]


def test_tables_that_are_not_of_the_source_are_left_alone(household):
    household.target.execute(
        PARENT, "create table public.theirs (p int references shop_public.parent)"
    )
    household.keep_house()
    assert indexed(household) == []


def test_nothing_is_made_when_switched_off(household):
    household.target.execute(
        PARENT, "create table shop_public.child (p int references shop_public.parent)"
    )
    household.keep_house(foreign_key_indexes=False)
    assert indexed(household) == []


def test_index_says_what_it_is_for(household):
    household.target.execute(
        PARENT, "create table shop_public.child (p int references shop_public.parent)"
    )
    household.keep_house()
    comment = household.target.value(
        "select obj_description(oid) from pg_class"
        f" where relname like '{INDEX_PREFIX}%' and relkind = 'i'"
    )
    assert "child_p_fkey" in comment


def test_killed_before_an_index_has_its_comment_it_is_made_again(household):
    household.target.execute(
        PARENT, "create table shop_public.child (p int references shop_public.parent)"
    )
    die_at("housekeeping.index_made", household.keep_house)
    assert indexed(household) == [("child", ["p"])]
    household.keep_house()
    assert indexed(household) == [("child", ["p"])]
    comment = f"select obj_description(oid) from pg_class where relname like '{INDEX_PREFIX}%'"
    assert "child_p_fkey" in household.target.value(comment)


def test_index_that_was_broken_off_is_made_anew_and_replay_is_not_kept_waiting(household):
    household.target.execute(
        PARENT,
        "create table shop_public.child (p int references shop_public.parent)",
        "insert into shop_public.parent values (1)",
    )
    keeper = Housekeeper(household.config())
    with household.target.connect() as writer, writer.transaction():
        # An index that is made concurrently waits for whoever wrote to the table before.
        writer.execute("insert into shop_public.child values (1)")
        keeper.caught_up(household.row)
        wait_until(lambda: household.target.value(BEING_MADE))
        # It would wait for the writer, who waits for it.
        keeper.stop()
        assert household.target.value("select count(*) from pg_stat_progress_create_index") == 0
    assert household.target.value(BEING_MADE) == 1
    assert indexed(household) == []
    # Taken up again at once, not only after the interval.
    keeper.caught_up(household.row)
    keeper.stop(None)
    assert indexed(household) == [("child", ["p"])]


def test_rows_can_be_written_while_an_index_is_made(household):
    household.target.execute(
        PARENT,
        "create table shop_public.child (p int references shop_public.parent)",
        "insert into shop_public.parent values (1)",
    )
    keeper = Housekeeper(household.config())
    with household.target.connect() as reader, reader.transaction():
        reader.execute("lock table shop_public.child in row exclusive mode")
        keeper.caught_up(household.row)
        wait_until(lambda: household.target.value(BEING_MADE))
        household.target.execute("insert into shop_public.child values (1)")
    keeper.stop(None)
    assert indexed(household) == [("child", ["p"])]


def test_index_that_cannot_be_made_is_said_once_and_the_next_is_made(household, caplog):
    household.target.execute(
        PARENT,
        "create table shop_public.bad (p int references shop_public.parent)",
        "create table shop_public.good (p int references shop_public.parent)",
    )
    # There is a table, not pgrepl's, where the index would be.
    keeper = Housekeeper(household.config(), interval_s=0)
    keeper.caught_up(household.row)
    keeper.stop(None)
    ((name,),) = household.target.rows(
        "select x.relname from pg_index i join pg_class x on x.oid = i.indexrelid"
        f" where i.indrelid = 'shop_public.bad'::regclass and x.relname like '{INDEX_PREFIX}%'"
    )
    household.target.execute(
        f"drop index shop_public.{name}",
        f"create table shop_public.{name} (x int)",
        "create table shop_public.better (p int references shop_public.parent)",
    )
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            keeper.caught_up(household.row)
            keeper.stop(None)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "cannot make an index on shop_public.bad (p)" in warnings[0]
    assert indexed(household) == [("better", ["p"]), ("good", ["p"])]
