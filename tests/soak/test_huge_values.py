"""Values of 200 MB, with all that has to be escaped on their way."""

from __future__ import annotations

import pytest

from pgrepl.replayer import ReplaySettings
from tests.support.database import Database
from tests.support.running.pipeline import Pipeline

#: Few changes go without Spark.
QUICK = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05)
SIZE = 200_000_000


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_values_of_200_megabytes_are_exact(source: Database, target: Database, plugin):
    source.execute(
        "create table big (id int primary key, v text)",
        "alter table big alter v set storage external",
        f"insert into big values (0, repeat('c', {SIZE}))",
    )
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.copy()
    source.execute(
        f"insert into big values (1, repeat('x', {SIZE}))",
        rf"""insert into big values (2, repeat(E'"\\\n%é', {SIZE // 6}))""",
        # What does not change is not sent, and stays.
        "update big set id = 3 where id = 1",
    )
    pipeline.apply(QUICK)
    query = "select id, octet_length(v), md5(v) from {}.big order by id"
    there = source.rows(query.format("public"))
    assert [size for _, size, _ in there] == [SIZE, SIZE // 6 * 6, SIZE]
    assert target.rows(query.format(pipeline.schema())) == there
