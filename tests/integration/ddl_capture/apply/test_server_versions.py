"""What newer servers add to tables follows, where both sides have it."""

from __future__ import annotations

#: Statements by the first major version that has them; the table is ``app.t (id, a)``.
STATEMENTS = {
    15: [
        "alter table app.t alter a set not null",
        "create table app.like_all (like secret.s including all)",
        "create table app.named (id int constraint own_name not null primary key)",
        "alter table app.named alter id type bigint",
        "alter table app.t alter a drop not null",
    ],
    16: ["alter table app.t add s text storage external"],
    17: [
        "alter table app.t add g int generated always as (id * 2) stored",
        "alter table app.t alter g set expression as (id * 3)",
        "create table app.p (id int generated always as identity, k int) partition by list (k)",
        "create table app.p1 partition of app.p for values in (1)",
        "insert into app.p (k) values (1)",
    ],
    18: [
        "alter table app.t add v int generated always as (id + 1)",
        "alter table app.t add w int generated always as (id + 2) virtual",
        "alter table app.t alter w set expression as (id + 5)",
        "create table app.like_virtual (like app.t including generated)",
        "insert into app.like_virtual (id, a) values (1, 1)",
        "alter table app.t add constraint a_there not null a not valid",
        "alter table app.t validate constraint a_there",
        "alter table app.t rename constraint a_there to a_here",
        "alter table app.t drop constraint a_here",
        "create table app.alike (like secret.s)",
        "alter table app.alike rename constraint own_name to other_name",
        "alter table app.alike drop constraint other_name",
        "alter table app.t add constraint positive check (a > 0) not enforced",
        "create table app.child (id int references app.t not enforced)",
        "create table app.days (id int4range, at daterange, primary key (id, at without overlaps))",
        "create table app.part (like app.days including all)",
        "alter table app.part add foreign key (id, period at) references app.days (id, period at)",
        "insert into app.days values ('[1,2)', '[2020-01-01,2021-01-01)')",
        "update app.days set at = '[2020-01-01,2022-01-01)'",
        "insert into app.part select * from app.days",
        "delete from app.part",
    ],
}


def test_statements_follow_that_the_server_has(follow, binaries):
    following = follow(exclude=["secret.*"])
    following.run(
        "create schema app",
        "create table app.t (id int primary key, a int)",
        "create schema secret",
        "create table secret.s (id int primary key, named int constraint own_name not null)",
    )
    for first, statements in STATEMENTS.items():
        for statement in statements if first <= binaries.version[0] else []:
            following.run(statement, "insert into app.t (id, a) select count(*), 7 from app.t")
            assert following.problems("app") == [], statement
    assert following.pending() == []
