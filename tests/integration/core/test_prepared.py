"""Questions to the catalogue are prepared once in a session, whatever happens in it."""

from __future__ import annotations

import pytest

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.prepared import ask_catalog

QUERY = "select %(number)s::int + 1, '%%', %(names)s::text[], %(number)s::int"


def prepared(connection: Connection) -> int:
    ((count,),) = connection.execute("select count(*) from pg_prepared_statements").fetchall()
    return int(count)


def ask(connection: Connection, number: int) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        ask_catalog(cursor, QUERY, {"number": number, "names": ["it's", 'a "b"', "c,d"]})
        return cursor.fetchall()


@pytest.mark.parametrize("threshold", [None, 0])
def test_answer_is_the_same_after_ddl_and_rollbacks(bare_target, threshold):
    with bare_target.connect() as connection:
        connection.prepare_threshold = threshold
        for number in range(4):
            with connection.transaction(force_rollback=True):
                connection.execute("create table t (id int)")
                connection.execute("alter table t add v text")
                connection.execute("drop table t")
                assert ask(connection, number) == [
                    (number + 1, "%", ["it's", 'a "b"', "c,d"], number)
                ]
            if threshold is None:
                assert prepared(connection) == 1
