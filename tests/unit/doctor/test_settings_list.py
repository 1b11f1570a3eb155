from __future__ import annotations

import pytest

from pgrepl.doctor.settings_list import split_list


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", []),
        ("pgoutput", ["pgoutput"]),
        ("pgoutput, test_decoding,wal2json", ["pgoutput", "test_decoding", "wal2json"]),
        ('pgoutput, "wal2json"', ["pgoutput", "wal2json"]),
        ('"pgoutput, wal2json"', ["pgoutput, wal2json"]),
        ('"a""b", c', ['a"b', "c"]),
        (" wal2json ", ["wal2json"]),
        ('"unfinished', []),
    ],
)
def test_list_is_split_as_the_server_splits_it(value, names):
    assert split_list(value) == names
