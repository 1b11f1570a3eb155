"""Tables of another name on the target that are copied again, or for the first time."""

from __future__ import annotations

import threading

import pytest

from pgrepl.config.dsn import Side
from pgrepl.postgres.connect import connect
from pgrepl.store.sources import find_source
from pgrepl.store.tables.source_names import source_names
from tests.integration.replayer.test_renamed_tables import (
    CHANGES,
    COPIED,
    RULES,
    TABLES,
    assert_followed,
    tables,
)
from tests.support.meanwhile import meanwhile
from tests.support.running.ruled import RuledPipeline, rule
from tests.support.waiting import wait_until

FOREIGN_KEYS = (
    "select c.conrelid::regclass::text, c.confrelid::regclass::text from pg_constraint c"
    " where contype = 'f' and conparentid = 0 and connamespace = '{}'::regnamespace order by 1, 2"
)


def foreign_keys(pipeline: RuledPipeline) -> list[tuple[str, str]]:
    schema = pipeline.schema("app")
    return [
        (one.removeprefix(f"{schema}."), other.removeprefix(f"{schema}."))
        for one, other in pipeline.target.rows(FOREIGN_KEYS.format(schema))
    ]


def test_copied_again_it_keeps_its_name(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin="pgoutput", rules=RULES)
    pipeline.begin()
    pipeline.follow()
    schema = pipeline.schema("app")
    target.execute(
        f"delete from {schema}.orders; delete from {schema}.customers where id > 30",
        f'update {schema}."Piece 1" set n = -1; delete from {schema}.b',
    )
    assert pipeline.verify().has_differences
    pipeline.copy_again("app.*", "whole")
    pipeline.follow()
    source.execute(*CHANGES)
    pipeline.copy_again_in_chunks("app.kna1")
    pipeline.copy_again_in_chunks("app.parts_1")
    pipeline.follow()
    assert tables(pipeline) == COPIED
    assert_followed(pipeline)
    assert foreign_keys(pipeline) == [("customers", "customers"), ("orders", "customers")]


def test_copied_with_another_structure_it_keeps_its_name(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    # The columns are dropped with a copy; what the source does meanwhile is for the others.
    pipeline.rules = [*RULES, rule("app.kna1", omit=("name",)), rule("app.parts*", omit=("n",))]
    source.execute("alter table app.orders add more varchar(9)", *CHANGES)
    pipeline.follow()
    pipeline.follow()
    assert tables(pipeline) == COPIED
    assert_followed(pipeline)
    columns = target.value(
        "select string_agg(attname, ' ' order by attnum) from pg_attribute where attnum > 0 and"
        f" attrelid = '{pipeline.schema('app')}.customers'::regclass and not attisdropped"
    )
    assert columns == "id n boss"
    assert foreign_keys(pipeline) == [("customers", "customers"), ("orders", "customers")]


@pytest.mark.parametrize("way", ["whole", pytest.param("chunked", marks=pytest.mark.soak)])
def test_copied_for_the_first_time_it_has_the_name_of_its_rule(source, target, way):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.only = "app.b"
    pipeline.begin()
    pipeline.follow()
    assert tables(pipeline) == ["a"]
    pipeline.only = None
    pipeline.receive()
    if way == "whole":
        pipeline.copy_again("app.*", "whole")
    else:
        for table in ("app.orders", "app.kna1", "app.a"):
            pipeline.copy_again_in_chunks(table)
        pipeline.copy_again("app.*", "auto")
    source.execute(*CHANGES)
    pipeline.follow()
    assert tables(pipeline) == COPIED
    assert_followed(pipeline)
    assert foreign_keys(pipeline) == [("customers", "customers"), ("orders", "customers")]


@pytest.mark.parametrize(
    ("how", "plugin"),
    [
        ("whole", "pgoutput"),
        pytest.param("chunked", "wal2json", marks=pytest.mark.soak),
        ("ddl", "wal2json"),
    ],
)
def test_table_is_not_taken_for_the_copy_that_has_its_name(source, target, how, plugin):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    pipeline.only = "app.b"
    pipeline.begin()
    pipeline.follow()
    # It has changes, and no copy; that of another one has its name.
    pipeline.only = None
    pipeline.receive()
    source.execute("update app.a set what = 'x' where id = 2", "insert into app.a values (70)")
    pipeline.follow()
    assert tables(pipeline) == ["a"]
    assert len(pipeline.target.rows(f"select from {pipeline.schema('app')}.a")) == 9
    if how == "ddl":
        source.execute("alter table app.a add column more int default 5")
        pipeline.follow()
    elif how == "whole":
        pipeline.copy_again("app.a", "whole")
    else:
        pipeline.copy_again_in_chunks("app.a")
    pipeline.follow()
    assert tables(pipeline) == ["a", "b"]
    source.execute("delete from app.a where id = 3", "delete from app.b where id = 4")
    pipeline.follow()
    report = pipeline.verify()
    compared = {table.name: table for table in report.tables}
    assert not compared["app.a"].differences, report
    assert not compared["app.b"].differences, report


def test_copies_that_two_sessions_name_at_once_keep_their_names(source, target):
    """As DDL that is applied does, and a resync that makes a table."""
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    rules = pipeline.config.sources[source.name].rules
    places = (
        "select schema_name, table_name, target_name from replication.target_table order by 1, 2"
    )
    before = sorted(target.rows(places))
    endpoint = target.endpoint(Side.TARGET)
    with connect(endpoint, "test") as one, connect(endpoint, "test") as other:
        row = find_source(one, source.name)
        assert row is not None

        begun = threading.Event()

        def name_them(_: threading.Event) -> None:
            begun.wait()
            with other.transaction(), source_names(other, row.source_id, rules):
                pass

        def is_waiting() -> bool:
            pid = other.info.backend_pid
            return bool(target.rows(f"select from pg_locks where pid = {pid} and not granted"))

        with (
            meanwhile(name_them),
            one.transaction(),
            source_names(one, row.source_id, rules),
        ):
            begun.set()
            wait_until(is_waiting)
    assert sorted(target.rows(places)) == before
    assert tables(pipeline) == COPIED
    assert_followed(pipeline)
