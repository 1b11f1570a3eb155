"""Checks come after the data, when everything that they may look at is there."""

from __future__ import annotations

from tests.support.running.copying import copy, structure
from tests.support.running.replaying import checksums

# The table with the check is the bigger one, so its rows are copied first.
TABLES = """
create schema app;
create table app.parents (id integer primary key);
create function app.is_parent(integer) returns boolean language sql stable
    as $$ select exists (select from app.parents where id = $1) $$;
create table app.children (
    id integer primary key, parent integer not null, note text,
    constraint children_parent check (app.is_parent(parent)),
    constraint "odd "" name" check (length(note) > 0) no inherit);
comment on constraint children_parent on app.children is 'looks elsewhere';
create table app.old (id integer primary key check (id > 0));
create table app.young (check (id < 1000)) inherits (app.old);
create table app.parted (id integer primary key, check (id > 0)) partition by range (id);
create table app.parted_1 partition of app.parted for values from (1) to (1000);
insert into app.parents select generate_series(1, 10);
insert into app.children select g, 1 + g % 10, repeat('x', 100) from generate_series(1, 5000) g;
insert into app.young select generate_series(1, 10);
insert into app.parted select generate_series(1, 10);
"""


def test_check_that_looks_into_another_table_holds_after_the_data(source, target):
    source.execute(TABLES)
    copy(target, source, jobs=1, trust_code=True)
    prefix = f"{source.name}_"
    assert structure(target, ["app"], prefix) == structure(source, ["app"])
    assert checksums(target, f"{prefix}app") == checksums(source, "app")
