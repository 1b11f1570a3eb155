"""One DDL statement after the other on a real source, with DML around it, followed and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pgrepl.config.rules import Rules
from pgrepl.throwaway import Cluster
from tests.support.database import KeptDatabase
from tests.support.ddl.ddl_case import TABLES
from tests.support.ddl.ddl_other_cases import INSIDE, OTHERS
from tests.support.ddl.ddl_table_cases import ALTER, CONSTRAINTS, CREATE, PARTITIONS
from tests.support.ddl.following import Following
from tests.support.running.ruled import rule

CASES = [*ALTER, *CONSTRAINTS, *CREATE, *PARTITIONS, *OTHERS, *INSIDE]


def _begin(clusters: Sequence[Cluster], name: str, rules: Rules) -> Iterator[Following]:
    pair = KeptDatabase(clusters[0], name), KeptDatabase(clusters[1], name)
    for database in pair:
        database.cluster.create_database(database.name)
    yield Following(*pair, rules=rules).begin()
    for database in pair:
        database.drop()


@pytest.fixture(scope="module")
def following(source_cluster: Cluster, target_cluster: Cluster) -> Iterator[Following]:
    """One pair of databases for all statements; each has schemas of its own in it."""
    yield from _begin((source_cluster, target_cluster), "statements", Rules())


@pytest.fixture(scope="module")
def renaming(source_cluster: Cluster, target_cluster: Cluster) -> Iterator[Following]:
    """The same, where tables have other names on the target."""
    names = {"t": "tee", "other": "t", "t2": "other", "p": "pieces", "p1": "Piece 1", "child": "c"}
    entries = [
        rule(f"s{number}.{table}", table=name)
        for number in range(len(CASES))
        for table, name in names.items()
    ]
    yield from _begin((source_cluster, target_cluster), "renaming", Rules(tuple(entries)))


def test_list_is_long_enough_and_names_nothing_twice():
    assert len({case.name for case in CASES}) == len(CASES) >= 120


_NUMBERS = pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])


@_NUMBERS
def test_statement_arrives_with_the_rows_around_it(following, number):
    check(following, number)


@pytest.mark.soak
@_NUMBERS
def test_statement_arrives_where_tables_have_other_names(renaming, number):
    check(renaming, number)


def check(following: Following, number: int) -> None:
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
