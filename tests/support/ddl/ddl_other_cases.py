"""DDL statements about everything else, and from inside functions and longer messages."""

from __future__ import annotations

from tests.support.ddl.ddl_case import Case

OTHERS = [
    Case(
        "use a word that is reserved later",
        "alter table t add system_user text default 'x', add unique (system_user, id); alter table"
        " t rename a to later; alter table t rename later to a",
        after="update t set system_user = 'y' where id = 1",
    ),
    Case(
        "alter a table with a child called like it",
        "alter table t rename a to aa; alter table t add column x int default 4; alter table t"
        " rename aa to a; alter table t alter x type bigint",
        before="create schema {s}_kin; create table {s}_kin.t () inherits (t); insert into"
        " {s}_kin.t values (100, 1)",
        schemas=("_kin",),
    ),
    Case(
        "drop what a role owns of all kinds",
        "drop owned by {s}_lord; create schema {s}_own; create table {s}_own.t (id text); create"
        " collation c (provider = icu, locale = 'de'); create statistics st on b, a from t; create"
        " domain d as text; alter table t add x text collate c, add y d",
        before="create role {s}_lord; create schema {s}_own; create table {s}_own.t (id int);"
        " create collation c (provider = icu, locale = 'und'); create statistics st on a, b from t;"
        " create domain d as int; alter schema {s}_own owner to {s}_lord; alter table {s}_own.t"
        " owner to {s}_lord; alter collation c owner to {s}_lord; alter statistics st owner to"
        " {s}_lord; alter domain d owner to {s}_lord",
        after="insert into {s}_own.t values ('x')",
        schemas=("_own",),
    ),
    Case("create an index", "create index i on t (a)"),
    Case("create an index without a name", "create index on t (a, b)"),
    Case("create a unique index", "create unique index i on t (a)"),
    Case("create a partial index", "create index i on t (a) where b <> 'x'"),
    Case("create an index of an expression", "create index i on t (lower(b), (a + 1))"),
    Case("create an index that includes", "create index i on t (a) include (b)"),
    Case(
        "create an index with options",
        "create index i on t using btree (b text_pattern_ops desc nulls last) with"
        " (fillfactor = 60)",
    ),
    Case("create an index of hash", "create index i on t using hash (a)"),
    Case("create an index concurrently", "create index concurrently i on {s}.t (a)", is_alone=True),
    Case(
        "create a unique index concurrently",
        "create unique index concurrently i on {s}.t (a)",
        is_alone=True,
    ),
    Case("drop an index", "drop index i", before="create index i on t (a)"),
    Case(
        "drop an index concurrently",
        "drop index concurrently {s}.i",
        before="create index i on t (a)",
        is_alone=True,
    ),
    Case("rename an index", "alter index i rename to j", before="create index i on t (a)"),
    Case("alter an index", "alter index i set (fillfactor = 50)", before="create index i on t (a)"),
    Case("create a sequence", "create sequence q start 10 increment 5 maxvalue 1000 cycle"),
    Case(
        "use a sequence as a default",
        "create sequence q; alter table t alter a set default nextval('q')",
    ),
    Case(
        "use a qualified sequence",
        "create sequence q; alter table t alter a set default nextval('{s}.q'::regclass)",
    ),
    Case("let a column own a sequence", "create sequence q; alter sequence q owned by t.a"),
    Case(
        "alter a sequence",
        "alter sequence q increment 7 minvalue -5 restart 3",
        before="create sequence q",
    ),
    Case("rename a sequence", "alter sequence q rename to r", before="create sequence q"),
    Case("drop a sequence", "drop sequence q", before="create sequence q"),
    Case(
        "create an enum",
        "create type mood as enum ('sad', 'ok'); alter table t add m mood default 'ok'",
    ),
    Case(
        "extend an enum",
        "alter type mood add value 'glad'",
        after="select 1",
        before="create type mood as enum ('sad', 'ok'); alter table t add m mood default 'ok'",
    ),
    Case(
        "extend an enum in the middle",
        "alter type mood add value 'meh' before 'ok'",
        after="select 1",
        before="create type mood as enum ('sad', 'ok')",
    ),
    Case(
        "rename a value",
        "alter type mood rename value 'sad' to 'blue'",
        before="create type mood as enum ('sad', 'ok'); alter table t add m mood default 'sad'",
    ),
    Case(
        "rename a type",
        "alter type mood rename to temper",
        before="create type mood as enum ('sad', 'ok'); alter table t add m mood default 'sad'",
    ),
    Case(
        "move a type",
        "create schema {s}_two; alter type mood set schema {s}_two",
        before="create type mood as enum ('sad'); alter table t add m mood",
        schemas=("_two",),
    ),
    Case("drop a type", "drop type mood", before="create type mood as enum ('sad')"),
    Case(
        "drop a type with its columns",
        "drop type mood cascade",
        before="create type mood as enum ('sad'); alter table t add m mood",
    ),
    Case(
        "create a composite type",
        "create type pair as (x int, y text); alter table t add p pair",
        after="update t set p = row(1, 'z')::pair where id = 1",
    ),
    Case(
        "alter a composite type",
        "alter type pair add attribute z int",
        before="create type pair as (x int, y text)",
    ),
    Case(
        "create a range type with a collation",
        'create type span as range (subtype = text, collation = "C"); alter table t add r span',
    ),
    Case("let an identity's sequence be unlogged", "alter sequence other_id_seq set unlogged"),
    Case(
        "create a range type",
        "create type span as range (subtype = int4); alter table t add r span default '[1,5)'",
    ),
    Case(
        "create a domain",
        "create domain d as int check (value > 0) default 5; alter table t add n d default 6",
    ),
    Case(
        "constrain a domain",
        "alter domain d add constraint small check (value < 1000)",
        before="create domain d as int; alter table t add n d default 6",
    ),
    Case(
        "change a domain's default", "alter domain d set default 8", before="create domain d as int"
    ),
    Case(
        "drop a domain's constraint",
        "alter domain d drop constraint c",
        before="create domain d as int constraint c check (value > 0)",
    ),
    Case("drop a domain", "drop domain d", before="create domain d as int"),
    Case("create a collation", 'create collation cc from "C"; alter table t add x text collate cc'),
    Case("create statistics", "create statistics st (ndistinct) on a, b from t"),
    Case(
        "drop statistics",
        "drop statistics st",
        before="create statistics st (ndistinct) on a, b from t",
    ),
    Case("comment on a table", "comment on table t is 'it''s a table'"),
    Case("comment on a column", "comment on column t.a is 'of {s}.t'"),
    Case("comment on a constraint", "comment on constraint t_pkey on t is 'key'"),
    Case("comment on an index", "comment on index t_pkey is 'key'"),
    Case(
        "comment on a type",
        "comment on type mood is 'm'",
        before="create type mood as enum ('sad')",
    ),
    Case("comment on a schema", "comment on schema {s} is 'here'"),
    Case("take a comment away", "comment on table t is null", before="comment on table t is 'x'"),
    Case(
        "create a schema",
        "create schema {s}_two; create table {s}_two.n (id int primary key);"
        " insert into {s}_two.n values (1)",
        schemas=("_two",),
    ),
    Case(
        "create a schema with tables",
        "create schema {s}_two create table n (id int primary key) create index on n (id)",
        after="insert into {s}_two.n select count(*) from {s}_two.n",
        schemas=("_two",),
    ),
    Case(
        "rename a schema",
        "alter schema {s}_two rename to {s}_six",
        before="create schema {s}_two; create table {s}_two.n (id int primary key)",
        after="insert into {s}_six.n select count(*) from {s}_six.n",
        schemas=("_six",),
    ),
    Case(
        "drop a schema",
        "drop schema {s}_two cascade",
        before="create schema {s}_two; create table {s}_two.n (id int primary key)",
    ),
    Case("drop an empty schema", "drop schema {s}_two", before="create schema {s}_two"),
]

INSIDE = [
    Case(
        "statements among changes",
        "insert into t (id) values (900); alter table t add d int default 1;"
        " update t set d = 2 where id = 900; alter table t rename d to e;"
        " update t set e = 3 where id = 900",
    ),
    Case(
        "a block",
        "do $$ begin alter table t add d int; create table n (id int primary key);"
        " insert into n values (1); end $$",
    ),
    Case(
        "a block with dynamic statements",
        "do $$ begin for i in 1..3 loop execute format('create table n%s (id int primary key)', i);"
        " execute format('insert into n%s values (%s)', i, i); end loop; end $$",
    ),
    Case(
        "a block that runs several at once",
        "do $$ begin for i in 1..2 loop execute format('create table a%s (x int primary key);"
        " alter table a%s add y int default %s', i, i, i); end loop; end $$",
    ),
    Case(
        "a block that fails inside",
        "do $$ begin begin create table n (x int); raise exception 'no';"
        " exception when others then null; end; create table n (y int primary key); end $$",
    ),
    Case(
        "a function in plpgsql",
        "create function {s}.f(n text) returns void language plpgsql as $$ begin"
        " execute 'alter table {s}.t add ' || quote_ident(n) || ' int'; end $$;"
        " select {s}.f('one'); select {s}.f('two')",
    ),
    Case(
        "a function in SQL",
        "create function {s}.f() returns void language sql as"
        " 'create table {s}.n (id int primary key); alter table {s}.n add x int default 3';"
        " select {s}.f(); insert into n values (1)",
    ),
    Case(
        "a procedure",
        "create procedure {s}.pr() language plpgsql as $$ begin create table {s}.n"
        " (id int primary key); end $$; call {s}.pr()",
    ),
    Case(
        "a statement with quotes in a block",
        "do $$ begin execute $x$alter table t add d text default 'a\"\nb'$x$; end $$",
    ),
    Case(
        "savepoints in one message",
        "savepoint a; alter table t add x int; rollback to a; alter table t add y int",
    ),
    Case(
        "a comment and odd spaces",
        "/* alter table t drop a; */ alter  TABLE\n t -- here\n add d int",
    ),
    Case(
        "several schemas on the path",
        "create schema {s}_two; set local search_path = {s}_two, {s};"
        " create table t (id int primary key); alter table other add d int;"
        " create table n as select note from other",
        schemas=("_two",),
        after="insert into {s}_two.t select count(*) from {s}_two.t",
    ),
    Case(
        "a pg_catalog function by another path",
        "set local search_path = pg_catalog; alter table {s}.t add d text default upper('x');"
        " set local search_path = {s}",
    ),
    Case("replica role", "set local session_replication_role = replica; alter table t add d int"),
    Case(
        "a trigger that makes a table",
        "create function {s}.f() returns trigger language plpgsql as $$ begin"
        " create table if not exists {s}.n (id int primary key); return new; end $$;"
        " create trigger tr before insert on t for each row execute function {s}.f();"
        " insert into t (id) values (901)",
    ),
]
