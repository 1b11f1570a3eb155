"""DDL with characters that the target's encoding does not have."""

from __future__ import annotations

import pytest

from pgrepl.errors import DdlStopped

TABLE = "create schema app; create table app.a (id int primary key, v text)"


@pytest.fixture
def following(follow, target):
    target.make_anew("LATIN1")
    made = follow()
    made.run(TABLE)
    return made


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table app.a add x int /* ☃ */",
        "do $$ begin perform '☃'; alter table app.a add x int; end $$",
        "begin; select '☃'; alter table app.a add x int; commit",
    ],
)
def test_characters_beside_the_statement_do_not_matter(following, ddl):
    following.run(ddl, "insert into app.a values (1, 'e', 2)")
    assert following.problems("app") == []
    assert following.pending() == []


@pytest.mark.parametrize(
    ("ddl", "skipped"),
    [
        ("alter table app.a alter v set default '☃'", ("default", "v", r"'\u2603'::text")),
        (
            "alter table app.a add constraint c check (v <> '☃')",
            ("check", "c", r"CHECK ((v <> '\u2603'::text))"),
        ),
    ],
)
def test_what_a_copy_does_without_is_skipped(following, ddl, skipped):
    following.run(ddl, "alter table app.a add x int", "insert into app.a values (1, 'e')")
    assert following.target.value("select count(*) from tgt_app.a") == 1
    rows = following.target.rows(
        "select kind, name::text, definition from replication.skipped_code"
    )
    assert rows == [skipped]
    assert following.pending() == []


@pytest.mark.parametrize(
    "ddl",
    [
        'create table app."☃" (id int primary key)',
        'alter table app.a add "☃" int',
        'alter table app.a rename to "☃"',
        'create schema "☃"',
        'create unique index "☃" on app.a (v)',
    ],
)
def test_statement_that_needs_them_waits_and_is_told(following, ddl):
    with pytest.raises(DdlStopped):
        following.run(ddl)
    ((original, error),) = following.pending("original, error")
    assert original == ddl.replace("☃", r"\u2603")
    assert "untranslatable character" in error
