"""One DDL statement after the other on a real source, with DML around it, followed and compared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.throwaway import Cluster
from tests.support.database import KeptDatabase
from tests.support.ddl.ddl_case import TABLES
from tests.support.ddl.ddl_other_cases import INSIDE, OTHERS
from tests.support.ddl.ddl_table_cases import ALTER, CONSTRAINTS, CREATE, PARTITIONS
from tests.support.ddl.following import Following

CASES = [*ALTER, *CONSTRAINTS, *CREATE, *PARTITIONS, *OTHERS, *INSIDE]


@pytest.fixture(scope="module")
def following(source_cluster: Cluster, target_cluster: Cluster) -> Iterator[Following]:
    """One pair of databases for all statements; each has schemas of its own in it."""
    pair = (KeptDatabase(source_cluster, "statements"), KeptDatabase(target_cluster, "statements"))
    for database in pair:
        database.cluster.create_database(database.name)
    yield Following(*pair).begin()
    for database in pair:
        database.drop()


def test_list_is_long_enough_and_names_nothing_twice():
    assert len({case.name for case in CASES}) == len(CASES) >= 120


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_statement_arrives_with_the_rows_around_it(following, number):
    case = CASES[number]
    schema = f"s{number}"
    path = f"set search_path = {schema}"

    def text(sql: str) -> str:
        return sql.replace("{s}", schema).replace("{{", "{").replace("}}", "}")

    ddl, after = text(case.ddl), text(case.after)
    row = "insert into other (note) values ('{}')"
    inside = (
        [ddl]
        if case.is_alone
        else ["begin", row.format("before"), ddl, row.format("later"), after, "commit"]
    )
    if "drop table t, other" in ddl:
        inside.remove(row.format("later"))
    following.start_over()
    following.run(text(TABLES), path, *filter(None, [text(case.before)]))
    following.run(path, row.format("neighbour"), *inside, after)
    schemas = [schema, *(schema + more for more in case.schemas)]
    assert following.problems(*schemas) == []
    assert following.pending() == []
