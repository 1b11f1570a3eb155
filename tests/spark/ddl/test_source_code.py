"""Values that a source's code computed stay right on a target that does not have the code."""

from __future__ import annotations

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.observing.verifying import found, verify
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

TABLES = """
create function twice(integer) returns integer language plpgsql immutable
    as $$ begin return $1 * 2; end $$;
create function compare(integer, integer) returns integer language sql immutable
    as 'select btint4cmp($1, $2)';
create operator class own_ops for type integer using btree as
    operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >,
    function 1 compare(integer, integer);
create table keyed (id integer primary key, a integer, big text,
    doubled integer generated always as (twice(a)) stored,
    words tsvector generated always as (to_tsvector('english', coalesce(big, ''))) stored,
    listed text[] generated always as (array[twice(a)::text, 'a "b"']) stored);
create table by_generated (a integer not null,
    k integer not null generated always as (twice(a)) stored, note text, primary key (k));
create table by_index (id integer not null, note text,
    doubled integer generated always as (twice(id)) stored);
create unique index by_index_id on by_index (id own_ops);
alter table by_index replica identity using index by_index_id;
create table whole_row (a integer, doubled integer generated always as (twice(a)) stored);
alter table whole_row replica identity full;
insert into keyed (id, a, big) select g, g, repeat('word ', 2000) from generate_series(1, 20) g;
insert into by_generated (a, note) select g, 'n' from generate_series(1, 20) g;
insert into by_index (id, note) select g, 'n' from generate_series(1, 20) g;
insert into whole_row (a) select g from generate_series(1, 20) g;
"""
CHANGES = (
    "insert into keyed (id, a) values (100, 100)",
    "update keyed set a = a + 1 where id < 5",
    "delete from keyed where id = 6",
    "update by_generated set a = a + 100 where a < 5",
    "update by_generated set note = 'm' where a = 7",
    "delete from by_generated where a = 8",
    "update by_index set id = id + 100 where id < 5",
    "delete from by_index where id = 8",
    "update whole_row set a = a + 100 where a < 5",
    "delete from whole_row where a = 8",
)


@pytest.mark.parametrize("consistency", ["shard", pytest.param("batch", marks=pytest.mark.soak)])
def test_plain_copies_of_generated_columns_follow_compare_and_are_copied_again(
    source, target, consistency
):
    source.execute(TABLES)
    pipeline = Pipeline(source, target, {"consistency": consistency})
    pipeline.copy()
    assert target.rows(
        "select attname::text from pg_attribute where attgenerated <> ''"
        f" and attrelid = '{pipeline.schema()}.keyed'::regclass"
    ) == [("words",)]
    source.execute(*CHANGES)
    pipeline.apply()
    assert pipeline.differences() == []
    report = verify(target, source)
    assert (found(report), report.structure) == (set(), [])

    target.execute(f"update {pipeline.schema()}.keyed set doubled = 0 where id = 1")
    # Nothing is on its way that could settle it.
    target.execute("update replication.shard_progress set applied_lsn = 'FFFFFFFF/FFFFFFFF'")
    assert found(verify(target, source)) == {("public.keyed", "changed", ("1",))}
    config = pipeline.config
    options = ResyncOptions(tables=TableSelection.of(["public.keyed"]))
    resync_tables(config, config.sources[source.name], options, Recorder())
    assert pipeline.differences() == []
