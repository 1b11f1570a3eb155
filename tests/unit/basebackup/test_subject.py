"""What a statement is about: a comment, what makes the object, and the catalogue agree."""

from __future__ import annotations

import pytest

from pgrepl.basebackup.schema.statements.subject import Subject, subject_of
from pgrepl.syntax.parse import parse


@pytest.mark.parametrize(
    ("create", "on", "subject"),
    [
        (
            "create operator a.=== (leftarg = integer, rightarg = a.b[], function = a.f)",
            "operator a.===(integer, a.b[])",
            Subject("pg_operator", "a", "===", ("int4", "b[]")),
        ),
        (
            "create operator a.!== (rightarg = text, function = a.f)",
            "operator a.!==(none, text)",
            Subject("pg_operator", "a", "!==", ("text",)),
        ),
        (
            "create operator class a.c for type text using btree as operator 1 <",
            "operator class a.c using btree",
            Subject("pg_opclass", "a", "c"),
        ),
        (
            "create operator family a.c using btree",
            "operator family a.c using btree",
            Subject("pg_opfamily", "a", "c"),
        ),
        (
            "create domain a.d as integer check (value > 0)",
            "constraint d_check on domain a.d",
            Subject("pg_type", "a", "d"),
        ),
        (
            "alter statistics a.s set statistics 5",
            "statistics a.s",
            Subject("pg_statistic_ext", "a", "s"),
        ),
    ],
)
def test_comment_has_the_subject_of_what_it_is_on(create, on, subject):
    statements = parse(f"{create}; comment on {on} is 'x'")
    assert [subject_of(statement) for statement in statements] == [subject, subject]
