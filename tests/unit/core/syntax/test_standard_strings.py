"""Escapes in plain quotes are marked, and nothing else is touched."""

from __future__ import annotations

import pytest

from pgrepl.syntax.standard_strings import as_standard


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"select 'a\'b', 'c'", r"select  E'a\'b', 'c'"),
        (r"select 'it''s', '\\'", r"select 'it''s',  E'\\'"),
        (r"select interval'\61 day'", r"select interval E'\61 day'"),
        (r"select E'\'' 'x'", r"select E'\'' 'x'"),
        ("select 'a'\n  '\\'b'", "select  E'a'\n  '\\'b'"),
        (r"select $a$'\'$a$, '\t'", r"select $a$'\'$a$,  E'\t'"),
        (r"select a$b$, '\t' from c$b$", r"select a$b$,  E'\t' from c$b$"),
        (r"""select "'\", '\t'""", r"""select "'\",  E'\t'"""),
        (
            "-- it's \\\nselect /* '\\ /* ' */ */ '\\t'",
            "-- it's \\\nselect /* '\\ /* ' */ */  E'\\t'",
        ),
        (r"select N'\t', b'01'", r"select nchar E'\t', b'01'"),
        ("select 1", "select 1"),
    ],
)
def test_constants_with_escapes_are_marked(text, expected):
    assert as_standard(text) == expected
