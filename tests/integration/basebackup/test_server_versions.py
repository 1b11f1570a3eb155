"""What newer servers add to tables is copied, where both sides have it."""

from __future__ import annotations

from tests.support.running.copying import copy, structure
from tests.support.running.replaying import checksums

#: Tables by the first major version that has what they show.
TABLES = {
    15: """
        create table app.named (id int constraint own_name not null, a int, primary key (id));
        insert into app.named values (1, 1);
    """,
    16: "create table app.stored (id int primary key, words text storage external)",
    17: """
        create table app.numbered (id int generated always as identity, k int, primary key (id, k))
            partition by list (k);
        create table app.numbered_1 partition of app.numbered for values in (1);
        insert into app.numbered (k) values (1), (1);
    """,
    18: """
        create table app.computed (id int primary key, later int generated always as (id + 1),
            kept int generated always as (id + 2) stored);
        insert into app.computed values (1), (2);
        create table app.lax (id int primary key, a int, b int check (b > 0) not enforced);
        insert into app.lax values (1, null, -1);
        alter table app.lax add constraint a_there not null a not valid;
        create table app.loose (id int primary key references app.lax not enforced);
        insert into app.loose values (7);
        create table app.days (id int4range, at daterange, primary key (id, at without overlaps));
        insert into app.days values ('[1,2)', '[2020-01-01,2021-01-01)');
        create table app.part (id int4range, at daterange, primary key (id, at without overlaps),
            foreign key (id, period at) references app.days (id, period at));
        insert into app.part select * from app.days;
        create table app.parent (id int constraint own not null no inherit, b int not null);
        create table app.child (primary key (b)) inherits (app.parent);
        alter table app.parent replica identity full;
    """,
}


def test_tables_are_copied_that_the_server_has(source, target, binaries):
    source.execute("create schema app")
    for first, tables in TABLES.items():
        if first <= binaries.version[0]:
            source.execute(tables)
    copy(target, source, jobs=1)
    prefix = f"{source.name}_"
    assert structure(target, ["app"], prefix) == structure(source, ["app"])
    assert checksums(target, f"{prefix}app") == checksums(source, "app")
