"""Which names a server can have is decided by its own encoding."""

from __future__ import annotations

import pytest

from pgrepl.postgres.foreign_names import fit_name, is_name


@pytest.mark.parametrize(
    ("encoding", "there", "foreign"),
    [
        ("UTF8", "☃", None),
        ("LATIN1", "é", "☃"),
        # Python does not know it, and the server says.
        ("EUC_TW", "中文", "☃"),
    ],
)
def test_name_is_kept_where_the_server_can_have_it(bare_target, encoding, there, foreign):
    bare_target.make_anew(encoding)
    with bare_target.connect(client_encoding="UTF8") as connection:
        assert is_name(connection, there)
        assert fit_name(connection, there) == there
        if foreign is not None:
            assert not is_name(connection, foreign)
            assert fit_name(connection, f"t {foreign}").startswith("t ??? (not text: ")
