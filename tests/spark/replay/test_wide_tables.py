"""Tables of as many columns as PostgreSQL allows: a staging table has no room for more."""

from __future__ import annotations

import pytest

from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: PostgreSQL's limit, and a staging table's columns besides those of the table do not fit.
MOST_COLUMNS = 1600


def make_wide(name: str, column_count: int) -> str:
    columns = ", ".join(f"c{n} int" for n in range(column_count - 2))
    return f"create table {name} (id int primary key, v text, {columns})"


@pytest.mark.parametrize("consistency", ["shard", pytest.param("batch", marks=pytest.mark.soak)])
def test_changes_of_a_table_with_all_columns_it_can_have_are_applied(source, target, consistency):
    source.execute(
        make_wide("wide", MOST_COLUMNS),
        make_wide("many", MOST_COLUMNS - 3),
        "create table narrow (id int primary key, v text)",
        *(
            f"insert into {name} (id, v) select g, repeat(g::text, 10)"
            " from generate_series(1, 20) g"
            for name in ("wide", "many", "narrow")
        ),
    )
    pipeline = Pipeline(source, target, {"consistency": consistency})
    pipeline.copy()
    for name in ("wide", "many", "narrow"):
        source.execute(
            f"update {name} set v = E'a\\t\\\\b\\n' || id where id < 5",
            f"update {name} set v = null where id = 6; delete from {name} where id in (7, 8)",
            f"insert into {name} (id, v) values (30, 'n'), (31, null)",
            f"update {name} set id = 40 where id = 9; update {name} set v = 'w' where id = 30",
            f"delete from {name} where id = 31; update {name} set id = 8 where id = 10",
        )
    source.execute("update wide set c7 = id, c1500 = -id where id > 15")
    pipeline.receive()
    result = pipeline.replay()
    assert result.error is None
    assert pipeline.parked() == []
    assert pipeline.differences() == []


def test_value_that_the_target_has_no_room_for_is_not_cut(source, target):
    source.execute(
        make_wide("wide", MOST_COLUMNS - 1),
        "alter table wide add last varchar(10)",
        "insert into wide (id, last) values (1, 'abc')",
    )
    pipeline = Pipeline(source, target)
    pipeline.copy()
    target.execute(f"alter table {pipeline.schema()}.wide alter last type varchar(3)")
    # With another key it is staged.
    source.execute("update wide set id = 2, last = 'abcdef'")
    pipeline.receive()
    assert pipeline.replay().error is None
    assert [table for table, _ in pipeline.parked()] == ["wide"]
