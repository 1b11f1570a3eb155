"""How tables are cut into parts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pgrepl.basebackup.rows.parts import TablePart, TableSize, plan_parts
from pgrepl.catalog.tables import SourceTable

MB = 1024 * 1024
BLOCK_BYTES = 8192


def table(oid: int, *, columns: tuple[str, ...] = ("a",), is_partitioned: bool = False):
    return SourceTable(
        oid=oid,
        schema="s",
        name=f"t{oid}",
        root_schema="s",
        root_name=f"t{oid}",
        is_partitioned=is_partitioned,
        is_unlogged=False,
        row_estimate=0,
        columns=columns,
        is_plain=True,
        definition="",
    )


def rows_of(size_bytes: int) -> TableSize:
    """Return the size of a table that has no long values."""
    return TableSize(size_bytes, -(-size_bytes // BLOCK_BYTES))


def test_small_tables_are_whole_parts_and_the_biggest_comes_first():
    parts = plan_parts([table(1), table(2)], {1: rows_of(MB), 2: rows_of(2 * MB)}, jobs=4)
    assert parts == [TablePart("s", "t2", 2 * MB), TablePart("s", "t1", MB)]


def test_empty_table_is_a_part_so_that_it_becomes_ready():
    assert plan_parts([table(1)], {1: rows_of(0)}, jobs=4) == [TablePart("s", "t1", 0)]


def test_partitioned_table_has_no_rows_of_its_own():
    assert plan_parts([table(1, is_partitioned=True)], {1: rows_of(0)}, jobs=4) == []


def test_one_big_table_keeps_all_jobs_busy():
    parts = plan_parts([table(1)], {1: rows_of(4000 * MB)}, jobs=4)
    assert len(parts) == 16


def test_no_part_takes_long_however_big_the_table():
    parts = plan_parts([table(1)], {1: rows_of(1000_000 * MB)}, jobs=4)
    assert max(part.size_bytes for part in parts) <= 513 * MB


def test_table_without_stored_columns_is_never_cut():
    assert len(plan_parts([table(1, columns=())], {1: rows_of(10_000 * MB)}, jobs=4)) == 1


def test_table_of_few_blocks_with_long_values_keeps_all_jobs_busy():
    parts = plan_parts([table(1)], {1: TableSize(4000 * MB, 40)}, jobs=4)
    assert [part.size_bytes for part in parts] == [250 * MB] * 16
    assert [part.first_block for part in parts[:3]] == [None, 2, 5]
    assert parts[-1] == TablePart("s", "t1", 250 * MB, 37, None)


def test_long_values_count_for_which_table_comes_first():
    sizes = {1: rows_of(20 * MB), 2: TableSize(30 * MB, 4)}
    assert [part.table for part in plan_parts([table(1), table(2)], sizes, jobs=2)] == ["t2", "t1"]


def test_table_has_no_more_parts_than_blocks_whatever_its_values_weigh():
    parts = plan_parts([table(1)], {1: TableSize(4000 * MB, 3)}, jobs=4)
    assert sorted((part.first_block or 0, part.end_block) for part in parts) == [
        (0, 1),
        (1, 2),
        (2, None),
    ]
    assert plan_parts([table(1)], {1: TableSize(4000 * MB, 1)}, jobs=4) == [
        TablePart("s", "t1", 4000 * MB)
    ]


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 700_000)), min_size=1, max_size=6),
    st.integers(1, 16),
)
def test_parts_of_a_table_cover_every_block_once(found, jobs):
    tables = [table(oid) for oid in range(len(found))]
    sizes = {oid: TableSize(size * MB + oid, blocks) for oid, (size, blocks) in enumerate(found)}
    parts = plan_parts(tables, sizes, jobs)
    for one in tables:
        own = sorted(
            (p for p in parts if p.table == one.name), key=lambda part: part.first_block or 0
        )
        assert own[0].first_block is None
        assert own[-1].end_block is None
        for left, right in pairwise(own):
            assert left.end_block == right.first_block
            assert right.first_block is not None
            assert (left.first_block or 0) < right.first_block < sizes[one.oid].block_count
