"""DDL that cannot be applied waits with its tables, and all others go on."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, decide, install
from pgrepl.errors import DdlStopped
from pgrepl.store.ddl_journal import DecisionKind
from tests.support.running.backlog import control, die_at
from tests.support.running.pipeline import IN_PIECES, Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

TABLES = ("a", "b", "c", "d")
#: What stands in the way on the target: a view of its owner, rows, and a table.
OBSTACLES = (
    "create view public.own as select v from {s}.a",
    "insert into {s}.d values (90, 7), (91, 7)",
    "create table {s}.dom (x int)",
)
CHANGES = (
    # It waits, with all that follows on the table and on its names.
    "insert into app.a values (3, 3)",
    "alter table app.a alter v type bigint",
    "insert into app.a values (4, 3000000000)",
    (
        "begin; update app.a set v = 4 where id = 3; alter table app.a add x int default 5;"
        " insert into app.a values (5, 5, 6); update app.b set v = 50 where id = 1; commit"
    ),
    "alter table app.a rename to a2",
    "update app.a2 set x = 7 where id = 1",
    # What is skipped in any case does not wait.
    "alter table app.a2 enable row level security; create policy p on app.a2 using (true)",
    (
        "begin; create table app.a (id int primary key, note text);"
        " insert into app.a values (1, 'n'); commit"
    ),
    "create table app.e as select id, v from app.a2",
    "create index on app.a (note)",
    "delete from app.a2 where id = 2",
    # Others go on.
    "alter table app.b add y int default 1",
    "insert into app.b values (6, 6, 6)",
    # What waits for a table that is dropped waits no longer.
    "alter table app.d add unique (v)",
    "insert into app.d values (8, 8)",
    "alter table app.d add z int",
    "drop table app.d",
    "create table app.d (id int primary key)",
    "insert into app.d values (1)",
    # It is about no table.
    "create domain app.dom as int",
    "truncate app.c",
    "insert into app.c values (1, 1)",
)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    """Return a copied source whose DDL meets with obstacles on the target."""
    made = Pipeline(source, target)
    source.execute("create schema app")
    for name in TABLES:
        source.execute(
            f"create table app.{name} (id int primary key, v int);"
            f" insert into app.{name} values (1, 1), (2, 2)"
        )
    made.ddl = Applier(made.config)
    install(made.config.sources[source.name])
    made.copy()
    target.execute(*(statement.format(s=made.schema("app")) for statement in OBSTACLES))
    return made


def settle(pipeline: Pipeline, tag: str, kind: DecisionKind = "retry") -> None:
    """Decide about the first statement of a tag that waits."""
    ((log_id,), *_) = pipeline.target.rows(
        f"select log_id from replication.ddl_pending where tag = '{tag}' order by seq, piece"
    )
    with control(pipeline) as connection:
        decide(connection, pipeline.source.name, kind, log_id=log_id)


def waiting(pipeline: Pipeline) -> list[str]:
    return [tag for (tag,) in pipeline.target.rows("select tag from replication.ddl_pending")]


def test_statement_waits_with_its_tables_and_the_rest_goes_on(pipeline):
    source, target, schema = pipeline.source, pipeline.target, pipeline.schema("app")
    source.execute(*CHANGES)
    pipeline.receive(IN_PIECES)
    result = pipeline.replay()
    assert result.error is None
    assert result.parked == [("app", "a"), ("app", "a2")]
    rows = f"select array_agg(id order by id) from {schema}."
    assert target.value(f"{rows}a") == [1, 2, 3]
    for name in ("b", "c", "d", "e"):
        query = f"select array_agg(t::text order by t::text) from %s.{name} t"
        assert target.value(query % schema) == source.value(query % "app"), name
    assert len(waiting(pipeline)) == 6
    # What waited for the dropped table is written down.
    dropped = "reason like 'its tables were dropped%'"
    history = f"select count(*) from replication.ddl_history where {dropped}"
    assert target.value(history) == 2

    # Before the cause is fixed nothing changes.
    settle(pipeline, "ALTER TABLE")
    assert pipeline.replay().parked == result.parked
    assert "cannot alter type of a column used by a view" in target.value(
        "select error from replication.ddl_pending order by seq, piece limit 1"
    )
    target.execute("drop view public.own")
    settle(pipeline, "ALTER TABLE")
    settle(pipeline, "CREATE DOMAIN", "skip")
    die_at("replayer.before_work_off_commit", pipeline.replay)
    result = pipeline.replay()
    assert (result.error, result.parked, result.waiting_ddl) == (None, [], 0)
    target.execute(f"drop table {schema}.dom")
    assert pipeline.differences("app") == []
    assert target.value("select count(*) from replication.parked_message") == 0
    source.execute("alter table app.a2 add last int", "insert into app.a2 values (9, 9, 9, 9)")
    pipeline.apply()
    assert pipeline.differences("app") == []


def test_source_stops_where_that_is_wanted(pipeline):
    pipeline.ddl_on_error = "stop"
    pipeline.ddl = Applier(pipeline.config)
    pipeline.source.execute(
        "insert into app.b values (3, 3)",
        "alter table app.a alter v type bigint",
        "insert into app.b values (4, 4)",
    )
    pipeline.receive()
    result = pipeline.replay()
    assert isinstance(result.error, DdlStopped)
    assert result.error.exit_code == 50
    ids = f"select array_agg(id order by id) from {pipeline.schema('app')}.b"
    assert pipeline.target.value(ids) == [1, 2, 3]
    pipeline.target.execute("drop view public.own")
    settle(pipeline, "ALTER TABLE")
    assert pipeline.replay().error is None
    assert pipeline.target.value(ids) == [1, 2, 3, 4]
