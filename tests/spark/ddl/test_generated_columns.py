"""Generated columns that a server of another locale would compute otherwise."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: Of a column, the expressions that depend on the locale and those that do not.
UPPER = "upper(b)"
BEFORE = "b < 'Z'"
ALIKE = "substr(b, 1, 2) || '-' || (j ->> 'k')"


def make_pipeline(source, target, plugin) -> Pipeline:
    """Return a copied source whose texts are changed to upper case by other rules."""
    source.make_anew("UTF8", "C.UTF-8")
    source.execute(
        'create table t (id int primary key, a int, b text, j jsonb default \'{"k": "é"}\','
        f" up text generated always as ({UPPER}) stored,"
        f" alike text generated always as ({ALIKE}) stored)",
        f"create table u (id int primary key, a int, b text, j jsonb,"
        f" alike text generated always as ({ALIKE}) stored)",
        "insert into t (id, a, b) values (1, 1, 'é'), (2, 2, 'straße')",
        "insert into u (id, a, b) values (1, 1, 'é')",
    )
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    assert pipeline.differences() == []
    return pipeline


def generated(pipeline: Pipeline) -> set[str]:
    """Return the columns that the target computes."""
    rows = pipeline.target.rows(
        "select attrelid::regclass || '.' || attname from pg_attribute where attgenerated <> ''"
    )
    return {name.removeprefix(f"{pipeline.schema()}.") for (name,) in rows}


def test_columns_that_depend_on_the_locale_take_the_values_of_the_source(source, target):
    pipeline = make_pipeline(source, target, "wal2json")
    assert generated(pipeline) == {"t.alike", "u.alike"}
    source.execute(
        f"alter table u add up text generated always as ({UPPER}) stored",
        f"alter table u add before boolean generated always as ({BEFORE}) stored,"
        " add twice int generated always as (a * 2) stored",
        f"create table v (id int primary key, b text,"
        f" up text generated always as ({UPPER}) stored)",
        "insert into v values (1, 'ü')",
        "create table w (id int primary key, b text); insert into w values (1, 'ü')",
        "insert into u (id, a, b) values (3, 3, 'ñ')",
        "update t set b = 'ê' where id = 1",
        # The text is converted by the rules of the source as well.
        f"alter table w alter b type text using {UPPER}",
    )
    pipeline.receive()
    assert pipeline.replay().error is None
    marked = pipeline.target.rows("select table_name::text from replication.resync_due order by 1")
    assert marked == [("u",), ("w",)]
    assert generated(pipeline) == {"t.alike", "u.alike", "u.twice"}
    assert "locale" in pipeline.target.value(
        "select min(reason) from replication.skipped_code where name = 'up'"
    )


def test_table_is_parked_where_the_plugin_does_not_send_them(source, target):
    pipeline = make_pipeline(source, target, "pgoutput")
    source.execute(
        "insert into t (id, a, b) values (3, 3, 'ñ')", "insert into u (id, a, b) values (3, 3, 'ñ')"
    )
    pipeline.receive()
    result = pipeline.replay()
    is_sent = source.value("select current_setting('server_version_num')::int >= 180000")
    assert (result.error, result.parked) == (None, [] if is_sent else [("public", "t")])
    assert pipeline.differences() == ([] if is_sent else ["t"])
