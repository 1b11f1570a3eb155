"""Whatever a migration does, in whatever order: the target ends equal, and nothing waits."""

from __future__ import annotations

import pytest
from psycopg.sql import SQL, Identifier

from pgrepl.config.naming import exact_pattern
from pgrepl.ddl_capture import Applier, install
from pgrepl.resync import Resyncer
from pgrepl.store.tables.table_marks import LOST_IDENTITY
from tests.support.database import Database
from tests.support.ddl.own_names import own_names
from tests.support.ddl.random_ddl import SCHEMAS, RandomDdl
from tests.support.running.pipeline import ALONE, Pipeline
from tests.support.running.ruled import RuledPipeline, rule

_LONG = [
    pytest.param(seed, 60, plugin, marks=pytest.mark.soak)
    for seed in range(40)
    for plugin in ("wal2json", "pgoutput")
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "transactions", "plugin"), [(1, 12, "wal2json"), (2, 12, "pgoutput"), *_LONG]
)
def test_random_ddl_ends_equal(source, target, seed, transactions, plugin):
    run(Pipeline(source, target, plugin=plugin), seed, transactions)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "transactions", "plugin"),
    [
        (0, 12, "pgoutput"),
        *(
            pytest.param(seed, 60, plugin, marks=pytest.mark.soak)
            for seed in range(10)
            for plugin in ("wal2json", "pgoutput")
        ),
    ],
)
def test_random_ddl_ends_equal_where_tables_have_other_names(
    source, target, seed, transactions, plugin
):
    # Every second one: names are given to those that have them no more, and taken by others.
    numbered = [f"{head}{number}" for head in ("n", "N ", "ä") for number in range(0, 200, 2)]
    others = {name: f"x {name}" for name in numbered}
    # And these have the names of one another.
    first = ["start", "parts", "parts_1", "parts_rest"]
    others |= dict(zip(first, [*first[1:], first[0]], strict=True))
    rules = [
        rule(exact_pattern(schema, name), table=other)
        for schema in SCHEMAS
        for name, other in others.items()
    ]
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=rules)
    run(pipeline, seed, transactions)


def run(pipeline: Pipeline, seed: int, transactions: int) -> None:
    source, target = pipeline.source, pipeline.target
    random = RandomDdl(source, seed)
    random.prepare()
    pipeline.ddl = Applier(pipeline.config)
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    random.run(transactions)
    # With pgoutput the receiver looks after each pass, and knows what replay has made by then.
    for _ in range(2):
        pipeline.receive()
        result = pipeline.replay(ALONE)
        assert (result.error, result.parked, result.waiting_ddl) == (None, [], 0), random.done
    assert result.due == []
    # A table that updates were lost of, for want of a replica identity, is marked and may differ.
    # Over pgoutput they are counted, and it is not known when they were.
    lost = set(
        target.rows(
            "select schema_name::text, table_name::text from replication.source_table"
            f" where lost_lsn is not null or resync_reason = '{LOST_IDENTITY}'"
        )
    )
    for schema in SCHEMAS:
        with own_names(target):
            here, there = _rows(source, schema), _rows(target, pipeline.schema(schema))
        different = {
            name
            for name, rows in here.items()
            if (schema, name) not in lost and there.get(name) != rows
        }
        assert different == set(), random.done


def _rows(database: Database, schema: str) -> dict[str, str]:
    """Return a checksum of each table's rows, whatever order its columns have."""
    names = database.rows(
        "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        f" where n.nspname = $${schema}$$ and c.relkind = 'r' and c.relpersistence = 'p'"
    )
    query = SQL(
        "select coalesce(md5(string_agg(r, ',' order by r collate \"C\")), '')"
        " from (select to_jsonb(t)::text from only {} t) as v (r)"
    )
    with database.connect(options="-c search_path=pg_catalog -c timezone=UTC") as connection:
        return {
            name: connection.execute(query.format(Identifier(schema, name))).fetchall()[0][0]
            for (name,) in names
        }
