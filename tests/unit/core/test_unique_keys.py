"""Which of a table's unique keys serves for what."""

from __future__ import annotations

import pytest

from pgrepl.catalog.unique_keys import UniqueKey, find_identity, find_row_key, sent_identity

PRIMARY = UniqueKey(name="pk", columns=("id",), is_primary=True)
DEFERRABLE = UniqueKey(name="late", columns=("id",), is_primary=True, is_immediate=False)
IDENTITY = UniqueKey(name="by_code", columns=("code",), is_identity=True)
UNIQUE = UniqueKey(name="by_mail", columns=("mail",))
NULLABLE = UniqueKey(name="by_phone", columns=("phone",), is_not_null=False)


@pytest.mark.parametrize(
    ("keys", "identity", "row_key"),
    [
        ([], None, None),
        ([PRIMARY, UNIQUE], PRIMARY, PRIMARY),
        ([PRIMARY, IDENTITY], IDENTITY, IDENTITY),
        ([DEFERRABLE, IDENTITY], IDENTITY, IDENTITY),
        ([DEFERRABLE], None, DEFERRABLE),
        ([UNIQUE], None, UNIQUE),
        ([NULLABLE, UNIQUE], None, UNIQUE),
        ([NULLABLE], None, None),
    ],
)
def test_rows_are_found_by_the_identity_or_the_primary_key_and_compared_by_any(
    keys, identity, row_key
):
    assert (find_identity(keys), find_row_key(keys)) == (identity, row_key)


@pytest.mark.parametrize(
    ("replica_identity", "keys", "expected"),
    [
        ("d", [PRIMARY, UNIQUE], PRIMARY),
        ("d", [DEFERRABLE], None),
        ("d", [UNIQUE], None),
        ("i", [PRIMARY, IDENTITY], IDENTITY),
        ("i", [PRIMARY], None),
        ("n", [PRIMARY, IDENTITY], None),
        ("f", [PRIMARY, IDENTITY], None),
    ],
)
def test_source_sends_the_key_that_its_replica_identity_names(replica_identity, keys, expected):
    assert sent_identity(replica_identity, keys) is expected
