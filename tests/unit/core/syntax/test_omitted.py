"""Statements without columns that the target does not have."""

from __future__ import annotations

import pytest

from pgrepl.syntax.omitted import ColumnNeededError, Lacking, remove_columns
from pgrepl.syntax.parse import parse_one, to_sql


def columns(schema: str, table: str) -> frozenset[str]:
    return frozenset({"ssn", "tax"}) if (schema, table) == ("a", "p") else frozenset()


LACKING = Lacking(columns, lambda schema, table: (schema, table) == ("a", "few"))


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("create table a.q (ssn int)", "create table a.q (ssn int)"),
        (
            (
                "create table a.p (id int primary key, ssn text not null, n int check (n > 0),"
                " check (ssn <> ''), unique (n, tax), foreign key (n) references a.q)"
            ),
            (
                "create table a.p (id int primary key, n int check (n > 0),"
                " foreign key (n) references a.q)"
            ),
        ),
        ("create table a.q (x text references a.p (ssn))", "create table a.q (x text)"),
        ("create table a.p (id int, check (p.* is not null))", "create table a.p (id int)"),
        (
            "create schema a create table p (id int, ssn int)",
            "create schema a create table p (id int)",
        ),
        ("alter table a.p add ssn text default 'x', add n int", "alter table a.p add n int"),
        ("alter table a.p drop ssn, drop column if exists tax cascade", None),
        (
            "alter table a.p alter ssn type int using 1, alter n set not null",
            "alter table a.p alter n set not null",
        ),
        ("alter table a.p alter ssn set statistics 5, alter ssn set storage main", None),
        ("alter table a.p alter ssn add generated always as identity", None),
        (
            "alter table a.p add constraint c unique (ssn), add unique (n)",
            "alter table a.p add unique (n)",
        ),
        ("alter table a.q add foreign key (x) references a.p (tax)", None),
        ("alter table a.q add foreign key (x) references a.few (id)", None),
        (
            "alter table a.few add foreign key (x) references a.q",
            "alter table a.few add foreign key (x) references a.q",
        ),
        ("create table a.q (x int references a.few, y int)", "create table a.q (x int, y int)"),
        (
            "create schema a create table q (x int references few)",
            "create schema a create table q (x int)",
        ),
        ("create index i on a.few (x)", "create index i on a.few (x)"),
        ("alter table a.p drop constraint ssn", "alter table a.p drop constraint ssn"),
        ("alter table a.p rename ssn to tax", None),
        ("alter table a.p rename open to ssn", None),
        ("alter table a.p rename open to shut", "alter table a.p rename open to shut"),
        ("alter table a.p rename to ssn", "alter table a.p rename to ssn"),
        ("create index i on a.p (n, lower(ssn))", None),
        ("create index i on a.p (n) where tax is null", None),
        ("create unique index i on a.p (n) include (ssn)", None),
        ("create index i on a.p (n)", "create index i on a.p (n)"),
        ("create statistics a.s on n, ssn from a.p", None),
        ("create statistics a.s on n, m from a.p", "create statistics a.s on n, m from a.p"),
        ("comment on column a.p.ssn is 'x'", None),
        ("comment on column a.p.n is 'x'", "comment on column a.p.n is 'x'"),
        ("grant select (n, ssn), update (tax) on a.p to r", "grant select (n) on a.p to r"),
        ("grant select (ssn) on a.p to r", None),
        ("grant select on a.p to r", "grant select on a.p to r"),
        ("alter sequence a.s owned by a.p.ssn", None),
        ("alter sequence a.s owned by a.p.n", "alter sequence a.s owned by a.p.n"),
        ("create sequence a.s increment 2 owned by a.p.ssn", "create sequence a.s increment 2"),
        ("create view a.v as select ssn from a.p", None),
        ("create view a.v as select n from a.p", "create view a.v as select n from a.p"),
        ("create view a.v as select ssn from a.q", "create view a.v as select ssn from a.q"),
    ],
)
def test_what_names_an_omitted_column_is_taken_out(statement, left):
    tree = parse_one(statement)
    removed = remove_columns(tree, LACKING)
    assert removed.is_left == (left is not None)
    assert removed.is_changed == (removed.is_left and left != statement) or not removed.is_left
    if left is not None:
        assert to_sql(tree) == to_sql(parse_one(left))


def test_column_that_gets_an_omitted_name_is_told():
    removed = remove_columns(parse_one("alter table a.p rename open to ssn"), LACKING)
    assert removed.renamed == "open"
    assert [str(part) for part in removed.parts] == ['column "ssn"']


@pytest.mark.parametrize(
    "statement",
    [
        "alter table a.p rename ssn to open",
        "alter table a.p alter n type text using ssn || 'x'",
        "alter table a.p add n text generated always as (upper(ssn)) stored",
        "create table a.p of a.t",
        "create table a.p (id int, ssn int) partition by list (ssn)",
        "create table a.p (id int, ssn int) partition by list ((tax + 1))",
    ],
)
def test_statement_that_needs_an_omitted_column_is_refused(statement):
    with pytest.raises(ColumnNeededError):
        remove_columns(parse_one(statement), LACKING)
