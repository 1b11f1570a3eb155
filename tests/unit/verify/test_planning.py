"""How tables are cut, sampled and hashed, without a server."""

from __future__ import annotations

import random

import pytest

from pgrepl.catalog.unique_keys import UniqueKey
from pgrepl.verify.rows.compare import Piece
from pgrepl.verify.rows.plan import sampled, whole
from pgrepl.verify.rows.statements import KeyRange
from pgrepl.verify.tables import Column, Table, make_subject


def column(name: str, type_name: str = "int4", **options) -> Column:
    given = {
        "type": type_name,
        "type_schema": "pg_catalog",
        "is_not_null": True,
        "is_generated": False,
        "is_ordered_alike": type_name != "text",
        "is_comparable": True,
        **options,
    }
    return Column(name=name, type_name=type_name, **given)


def table(*columns: Column, has_key: bool = True, rows: int = 0) -> Table:
    is_not_null = all(column.is_not_null for column in columns if column.name == "id")
    key = UniqueKey(name="k", columns=("id",), is_not_null=is_not_null)
    return Table("app", "t", False, rows, columns, (key,) if has_key else ())


def test_number_as_key_makes_ranges_and_text_does_not():
    numbers = table(column("id"))
    texts = table(column("id", "text"))
    assert make_subject(numbers, numbers).has_ranges
    assert not make_subject(texts, texts).has_ranges
    assert make_subject(texts, texts).key == ("id",)


def test_key_that_the_target_has_no_index_for_makes_no_ranges():
    subject = make_subject(table(column("id")), table(column("id"), has_key=False))
    assert (subject.key, subject.has_ranges) == (("id",), False)


def test_unique_key_that_can_be_null_tells_no_rows_apart():
    nullable = table(column("id", is_not_null=False))
    assert make_subject(nullable, nullable).key is None


def test_only_columns_of_both_sides_are_compared():
    subject = make_subject(
        table(column("id"), column("a"), column("b")), table(column("b"), column("id"))
    )
    assert subject.columns == ("id", "b")


@pytest.mark.parametrize(
    ("rows", "groups"), [(0, 1), (1, 1), (256, 1), (257, 2), (100_000, 512), (10**10, 1 << 16)]
)
def test_table_without_ranges_has_a_bounded_number_of_groups(rows, groups):
    texts = table(column("id", "text"), rows=rows)
    piece = whole(make_subject(texts, texts))
    assert (piece.keys, piece.group_count) == (None, groups)


def test_sample_takes_a_share_of_the_ranges_and_at_least_one():
    subject = make_subject(table(column("id")), table(column("id")))
    pieces = [Piece(subject, KeyRange((str(n),), (str(n + 1),))) for n in range(100)]
    dice = random.Random(1)
    assert len(sampled(pieces, 0.05, dice)) == 5
    assert len(sampled(pieces[:3], 0.05, dice)) == 1
    assert sampled(pieces, 1.0, dice) == pieces
    assert sampled(pieces, 0.05, dice) != sampled(pieces, 0.05, dice)


def test_sample_of_a_table_without_ranges_is_a_share_of_its_groups():
    texts = table(column("id", "text"), rows=256 * 64)
    pieces = [whole(make_subject(texts, texts))]
    ((groups,),) = [(piece.groups,) for piece in sampled(pieces, 0.25, random.Random(1))]
    assert groups is not None
    assert len(groups) == 16
