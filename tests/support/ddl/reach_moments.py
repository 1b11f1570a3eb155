"""DDL by commands of other kinds, by event triggers of users and by code in odd moments."""

from __future__ import annotations

from tests.support.ddl.reach_case import CHANGE, MORE, T, case

#: An event trigger of a user that does something to each new table whose name begins with "made".
_ON_CREATE = (
    "create function {name}() returns event_trigger language plpgsql as $$"
    " declare made record; begin for made in select c.oid, c.relname from"
    " pg_event_trigger_ddl_commands() e join pg_class c on c.oid = e.objid and e.classid ="
    " 'pg_class'::regclass where e.object_type = 'table' and e.schema_name = '{schema}' and"
    " c.relname ~ '^made' loop {action}; end loop;"
    " end $$; create event trigger {name} on ddl_command_end when tag in ('CREATE TABLE',"
    " 'CREATE TABLE AS', 'SELECT INTO') execute function {name}()"
)
_DROPS = "execute 'drop table {schema}.' || quote_ident(made.relname)"
_RENAMES = (
    "execute format('alter table {schema}.%I rename to %I', made.relname, 'x_' || made.relname)"
)
_MOVES = "execute format('alter table {schema}.%I set schema reach_to', made.relname)"


def _on_create(name: str, schema: str, action: str) -> str:
    return _ON_CREATE.format(name=name, schema=schema, action=action.format(schema=schema))


MOMENT_SCENARIOS = (
    # Commands of other kinds than the table.
    case(
        "alter_index_renames_a_table",
        T,
        "alter index t rename to u",
        "insert into u (id, a) values (7, 7)",
        "begin; alter index u rename to v; insert into v (id, a) values (8, 8); create table u (id"
        " int primary key); insert into u values (1); commit",
        "update v set a = 9 where id = 8",
        "alter index t_pkey rename to w",
    ),
    case(
        "old_ways_to_write_it",
        f"{T} create table c (extra int) inherits (t); insert into c values (10, 10, 'x', 1)",
        "alter table t* add column c int default 3",
        "ALTER/**/TABLE/* ; */t--;\n\tADD\x0cCOLUMN\r\nd int",
        "alter table if exists only old_ways_to_write_it.t add constraint k check (a > 0) no"
        " inherit",
        "alter table t* rename a to aa",
        "insert into c (id, aa) values (11, 11)",
        "alter table only t alter c set default 5",
        "insert into t (id) values (12)",
    ),
    case(
        "drop_owned_takes_a_schema",
        "create role reach_lord; create schema reach_own authorization reach_lord;"
        " create table reach_own.t (id int primary key); insert into reach_own.t values (1);"
        " create collation reach_own.c (provider = icu, locale = 'und');"
        " create table u (id int primary key); insert into u values (1)",
        "drop owned by reach_lord cascade",
        "create schema reach_own; create table reach_own.t (x text primary key)",
        "insert into reach_own.t values ('again')",
        "insert into u values (2); drop role reach_lord",
    ),
    case(
        "drop_owned_takes_types_of_all_kinds",
        f"{T} create role reach_lord2; grant all on schema drop_owned_takes_types_of_all_kinds to"
        " reach_lord2; create collation c2 (provider = icu, locale = 'und'); alter collation c2"
        " owner to reach_lord2; create domain d2 as int; alter domain d2 owner to reach_lord2;"
        " create type r2 as range (subtype = int4); alter type r2 owner to reach_lord2;"
        " alter table t add c text collate c2, add d d2, add r r2; create statistics s2 on id, a"
        " from t; alter statistics s2 owner to reach_lord2; create index i2 on t (c)",
        "drop owned by reach_lord2 cascade",
        "create collation c2 (provider = icu, locale = 'de'); create domain d2 as text; create"
        " type r2 as range (subtype = int8); create statistics s2 on a, b from t",
        "alter table t add c text collate c2, add d d2 default 'x', add r r2 default '[1,2)'",
        MORE,
        "drop role reach_lord2",
    ),
    case(
        "access_method_drops_its_tables",
        "create access method heap3 type table handler heap_tableam_handler; create table t (id int"
        " primary key) using heap3; insert into t values (1); create table u (id int primary key);"
        " create table f (id int primary key, t int references t)",
        "drop access method heap3 cascade",
        "insert into f values (1, 77); insert into u values (1)",
        "create table t (id int primary key, b text); insert into t values (1, 'x')",
    ),
    case(
        "comments_on_everything",
        f"{T} create view v as select * from t; create materialized view m as select * from t;"
        " create index i on t (a); create domain d as int check (value > 0); create sequence s;"
        " create function f() returns int language sql as 'select 1'; create type e as enum"
        " ('x'); create rule r as on delete to v do instead nothing",
        "comment on column v.a is 'v'; comment on view v is 'v'; comment on materialized view m is"
        " 'm'; comment on column m.a is 'ma'; comment on index i is 'i'; comment on constraint"
        " d_check on domain d is 'dc'; comment on function f() is 'f'; comment on type e is 'e';"
        " comment on rule r on v is 'r'; comment on sequence s is 's'; comment on domain d is 'd'",
        "comment on cast (int as bigint) is null; comment on access method heap is 'h'",
        "comment on column t.a is '%s %(x)s '' \" ; --'; comment on table t is U&'\\0041'",
        MORE,
    ),
    # What becomes a member of an extension, and comes back.
    case(
        "table_joins_an_extension",
        T,
        "alter extension plpgsql add table t",
        MORE,
        "alter extension plpgsql drop table t",
        "alter table t add d int default 6",
        "insert into t (id, a, d) values (9, 9, 9)",
    ),
    # Event triggers of users.
    case(
        "event_trigger_drops_before_ours",
        _on_create("aaa_drops", "event_trigger_drops_before_ours", _DROPS),
        "create table made (id int primary key)",
        "create table kept (id int primary key); insert into kept values (1)",
        "create table made_as as select g as id from generate_series(1, 3) g",
        "begin; create table made (id int); create table made2 (id int); insert into kept values"
        " (2); commit",
        "drop event trigger aaa_drops",
        "create table made (id int primary key, b text); insert into made values (1, 'x')",
        "create table made_as as select 'q' as q",
    ),
    case(
        "event_trigger_drops_after_ours",
        _on_create("zzz_drops", "event_trigger_drops_after_ours", _DROPS),
        "create table made (id int primary key)",
        "create table made_as as select g as id from generate_series(1, 3) g",
        "drop event trigger zzz_drops",
        "create table made (id int primary key, b text); insert into made values (1, 'x')",
        "create table made_as as select 'q' as q",
    ),
    case(
        "event_trigger_renames_before_ours",
        _on_create("aaa_renames", "event_trigger_renames_before_ours", _RENAMES),
        "create table made (id int primary key, n text)",
        "insert into x_made values (1, 'x')",
        "create table made_as as select g as id from generate_series(1, 3) g",
        "insert into x_made_as values (4)",
        "alter table x_made rename to y",
        "create table made (id int primary key, other date)",
        "insert into x_made values (1, '2020-01-01'); insert into y values (2, 'y')",
        "drop event trigger aaa_renames",
        "create table made (id int primary key); insert into made values (1)",
    ),
    case(
        "event_trigger_renames_after_ours",
        _on_create("zzz_renames", "event_trigger_renames_after_ours", _RENAMES),
        "create table made (id int primary key, n text)",
        "insert into x_made values (1, 'x')",
        "create table made_as as select g as id from generate_series(1, 3) g",
        "insert into x_made_as values (4)",
        "drop event trigger zzz_renames",
        "create table made (id int primary key); insert into made values (1)",
    ),
    case(
        "event_trigger_moves_before_ours",
        "create schema reach_to;"
        + _on_create("aaa_moves", "event_trigger_moves_before_ours", _MOVES),
        "create table made (id int primary key, n text)",
        "insert into reach_to.made values (1, 'x')",
        "create table made_as as select g as id from generate_series(1, 3) g",
        "insert into reach_to.made_as values (4)",
        "drop event trigger aaa_moves",
        "create table made (id int primary key); insert into made values (1)",
    ),
    case(
        "event_trigger_keeps_what_is_dropped",
        f"{T} create function zzz_keep() returns event_trigger language plpgsql as $$ declare"
        " gone record; begin for gone in select object_name from"
        " pg_event_trigger_dropped_objects() where object_type = 'table' and schema_name ="
        " 'event_trigger_keeps_what_is_dropped' and object_name !~ 'gone$' loop execute"
        " format('create table event_trigger_keeps_what_is_dropped.%I as select 1 as was',"
        " gone.object_name || '_gone'); end loop; end $$;"
        " create event trigger zzz_keep on sql_drop execute function zzz_keep()",
        "create table u (id int primary key)",
        "begin; insert into t values (9, 9); drop table t, u; insert into t_gone values (5);"
        " commit",
        "drop event trigger zzz_keep",
        "insert into u_gone values (2)",
    ),
    case(
        "event_trigger_on_rewrites",
        f"{T} create table notes (id serial primary key, what text); create function aaa_rewrite()"
        " returns event_trigger language plpgsql as $$ begin if"
        " pg_event_trigger_table_rewrite_oid() = 'event_trigger_on_rewrites.t'::regclass then"
        " insert into event_trigger_on_rewrites.notes (what) values ('rewritten'); create table if"
        " not exists event_trigger_on_rewrites.rewrites (n int primary key); end if; end $$;"
        " create event trigger aaa_rewrite on table_rewrite execute function aaa_rewrite()",
        "alter table t alter a type bigint",
        "begin; alter table t alter a type numeric using a / 2.0, add x float8 default random();"
        " insert into rewrites values (1); commit",
        "drop event trigger aaa_rewrite",
        MORE,
    ),
    # Code that runs DDL in odd moments.
    case(
        "ddl_at_the_commit",
        f"{T} create table q (n int primary key); create function late() returns trigger language"
        " plpgsql as $$ begin execute format('create table late_%s (id int primary key, n int"
        " default %s)', new.n, new.n); execute format('insert into late_%s values (1)', new.n);"
        " execute format('alter table t add c%s int default %s', new.n, new.n); return null; end"
        " $$; create constraint trigger late after insert on q deferrable initially deferred for"
        " each row execute function late()",
        "insert into q values (1)",
        "begin; insert into q values (2); insert into t (id, a) values (20, 20); insert into q"
        " values (3); alter table t add mid int; commit",
        "begin; insert into q values (4); set constraints all immediate; alter table late_4 rename"
        " to later_4; insert into later_4 values (2); commit",
        CHANGE,
    ),
    case(
        "ddl_within_ddl",
        f"{T} create function inner_ddl(n int) returns int volatile language plpgsql as $$ begin"
        " if to_regclass('made_' || n) is null then execute format('create table made_%s (id int"
        " primary key)', n); execute format('insert into made_%s values (%s)', n, n); end if;"
        " return n * 2; end $$",
        "create table u as select g as id, inner_ddl(g) as n from generate_series(1, 2) g",
        "insert into made_1 values (100); insert into u values (9, 9)",
        "alter table t add d int default inner_ddl(5)",
        "alter table t alter a type bigint using inner_ddl(6)",
        "create table v (id int primary key, check (inner_ddl(7) > 0)); insert into v values (1)",
        "select id, inner_ddl(8) as n into w from t",
        "begin; create materialized view m as select inner_ddl(9) as n; insert into made_9 values"
        " (1); commit",
        "insert into t (id, a) values (30, 30); insert into made_6 values (1)",
    ),
    case(
        "loops_of_everything",
        "create table log (n int primary key)",
        "do $$ begin for i in 1..30 loop execute format('create table r%s (id int primary key, a"
        " int)', i); execute format('insert into r%s values (1, %s)', i, i); if i > 1 then execute"
        " format('alter table r%s rename to s%s', i - 1, i - 1); end if; if i > 2 then execute"
        " format('alter table s%s add b int default %s', i - 2, i); end if; if i > 3 then execute"
        " format('drop table s%s', i - 3); end if; insert into log values (i); end loop; end $$",
        "do $$ declare n text; begin for n in select relname from pg_class where relnamespace ="
        " 'loops_of_everything'::regnamespace and relkind = 'r' order by 1 loop execute"
        " format('truncate %I', n); begin execute format('alter table %I add x int; select 1/0',"
        " n); exception when division_by_zero then execute format('alter table %I add y int', n);"
        " end; end loop; end $$",
        "insert into r30 values (1, 1, 1)",
    ),
    case(
        "sessions_of_a_replica",
        T,
        "set session_replication_role = replica; create table u (id int primary key, a int);"
        " insert into u values (1, 1); alter table t add c int default 5; update t set c = 6"
        " where id = 1; create table v as select * from t; alter table v add primary key (id);"
        " update v set a = 0; truncate u; insert into u values (2, 2)",
        "set session_replication_role = replica; alter table u rename to w; insert into w values"
        " (3, 3); drop table v",
        CHANGE,
    ),
    case(
        "parameters_and_dollars",
        T,
        "do $a$ begin execute 'alter table t add \"$1\" int default 3' ; execute $b$alter table t"
        " add \"$b\" text default '$1'$b$; end $a$",
        'do $$ declare q text := \'create table "q""x" ("a""\nb" int primary key)\'; begin'
        ' execute q; insert into "q""x" values (4); end $$',
        "do $$ begin execute E'alter table t add e text default \\'x\\ty\"\\''; end $$",
        "do $$ begin execute 'alter table t add \"\nf\" text default ''\"\n'''; end $$",
        MORE,
    ),
)
