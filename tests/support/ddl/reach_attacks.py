"""DDL by an attacker: settings, types, names and order, each against one mechanism."""

from __future__ import annotations

from tests.support.ddl.reach_case import CHANGE, MORE, T, case

ATTACKS = (
    # Settings.
    case(
        "strings_with_backslashes",
        T,
        "set standard_conforming_strings = off; set escape_string_warning = off",
        "set backslash_quote = on",
        r"alter table t add c text default 'a\\b\'c', add d text default E'\\x'",
        r"alter table t alter b type text using b || '\\;\'' ; alter table t add e int",
        "set quote_all_identifiers = on; alter table t add f int default 1, add check (f < 100);"
        " create table u (like t including all); insert into u (id) values (1)",
        MORE,
        CHANGE,
    ),
    case(
        "constants_read_in_many_ways",
        "create table t (id int primary key, a int, at timestamptz, i interval, f float8, y bytea);"
        r" insert into t values (1, 1, '2020-06-01 12:00+00', '1 day 02:03', 0.1, '\x00ff')",
        "set datestyle = 'SQL, DMY'; set timezone = 'Asia/Tokyo'; alter table t add d date default"
        " '01/02/2020', add z timestamptz default '03/04/2020 05:06', add ds date[] default"
        " '{07/08/2020}', add r tstzrange default '[09/10/2020,10/10/2020)'",
        "set datestyle = 'ISO, MDY'; alter table t add check (d > '01/02/2019'); alter table t add"
        " e date default '01/02/2020'",
        "set transform_null_equals = on; alter table t add n boolean generated always as"
        " (a = null) stored; create index on t (id) where a = null",
        "set array_nulls = off; alter table t add l text[] default '{NULL,x}'",
        "set intervalstyle = 'sql_standard'; alter table t add j interval default '-1 2:03:04'",
        "set intervalstyle = 'iso_8601'; alter table t alter i type text using i::text || '!'",
        "set extra_float_digits = -10; alter table t alter f type text",
        "set bytea_output = 'escape'; alter table t alter y type text using y::text",
        "set timezone = 'America/New_York'; alter table t alter at type timestamp",
        "insert into t (id) values (9)",
    ),
    case(
        "bounds_read_in_many_ways",
        "create table t (id int, at timestamptz, i interval) partition by range (at)",
        "set timezone = 'Pacific/Auckland'; create table t_1 partition of t for values from"
        " ('2020-01-01') to ('2020-02-01')",
        "set timezone = 'UTC'; set datestyle = 'German'; create table t_2 partition of t for values"
        " from ('31.01.2020 11:00') to ('1.3.2020')",
        "set timezone = 'Asia/Kolkata'; create table t_3 (like t); insert into t_3 values (5,"
        " '2020-04-01'); alter table t attach partition t_3 for values from ('2020-03-15') to"
        " ('2020-05-01')",
        "insert into t select g, timestamptz '2020-01-01 00:00+00' + g * interval '1 day' from"
        " generate_series(1, 58) g",
        "create function paris() returns void language plpgsql set timezone = 'Europe/Paris' as"
        " $$ begin create table t_4 partition of t for values from ('2021-01-01') to"
        " ('2021-02-01'); end $$; select paris()",
        "insert into t values (99, '2020-12-31 23:30+00')",
    ),
    case(
        "values_by_stable_casts_in_types",
        "create domain stamp as timestamptz; create type pair as (at stamp, n int);"
        " create table t (id int primary key, a int, s stamp, p pair, l stamp[]);"
        " insert into t values (1, 1, '2020-06-01 12:00+00', '(2020-06-01 12:00+00,1)',"
        " '{2020-06-01 12:00+00}')",
        "set timezone = 'Asia/Tokyo'; alter table t alter s type text using s || ''",
        "set timezone = 'Asia/Tokyo'; alter table t alter p type text using (p).at || '/' || (p).n",
        "set timezone = 'Asia/Tokyo'; alter table t alter l type date[]",
        "create domain later as text default ('now'::text::timestamptz)::text",
        "alter table t add w later; alter table t add v text default lower('TODAY')::date::text",
        CHANGE,
    ),
    # Types.
    case(
        "labels_that_swap",
        "create type e as enum ('a', 'b'); create table t (id int primary key, a int, e e default"
        " 'a'); insert into t values (1, 1, 'a'), (2, 2, 'b')",
        "begin; insert into t values (3, 3, 'a'); alter type e rename value 'a' to 'x'; update t"
        " set a = 5 where id = 3; alter type e rename value 'b' to 'a'; insert into t values (4, 4,"
        " 'a'); alter type e rename value 'x' to 'b'; insert into t (id) values (5); commit",
        "begin; savepoint s; alter type e rename value 'a' to 'lost'; update t set e = 'lost' where"
        " id = 1; rollback to s; update t set e = 'a' where id = 5; commit",
        f"alter type e add value '{'l' * 63}' before 'a'",
        f"insert into t values (6, 6, '{'l' * 63}')",
        "alter table t alter e drop default, alter e type text, alter e set default 'free'",
        "drop type e; create type e as enum ('c'); alter table t add f e default 'c'",
        CHANGE,
    ),
    case(
        "types_named_like_those_of_postgresql",
        "create domain text as pg_catalog.text check (value <> 'no');"
        " create table t (id int primary key, a int, b pg_catalog.text)",
        "set search_path = types_named_like_those_of_postgresql, pg_catalog; create table u (id"
        " int primary key, b text, c pg_catalog.text); insert into u values (1, 'x', 'no')",
        "set search_path = types_named_like_those_of_postgresql, pg_catalog; alter table t add c"
        " text default 'd', alter b type text; alter table u alter c type text using 'q'",
        "create type int4 as enum ('five'); set search_path = types_named_like_those_of_postgresql,"
        " pg_catalog; alter table t add n int4 default 'five', add m int default 5",
        MORE,
        CHANGE,
    ),
    case(
        "ranges_of_own_types",
        "create domain cents as numeric(10,2); create table t (id int primary key, a int)",
        "create type span as range (subtype = float8, multirange_type_name = spans)",
        "alter table t add s span, add m spans default '{[1,2],[3,4)}', add l span[]",
        "insert into t values (2, 2, '[1.5,3)', '{[7,8]}', '{\"[1,2]\"}')",
        "create domain short as span check (upper(value) < 100); alter table t add d short default"
        " '[1,2]'; alter type spans rename to many; alter type span rename to one",
        "alter table t alter m drop default, alter m type one using range_merge(m)",
        CHANGE,
    ),
    case(
        "casts_and_operators_of_its_own",
        f"{T} create type money2 as (n int); create function to_money(int) returns money2 language"
        " sql immutable as 'select row($1)::money2'; create cast (int as money2) with function"
        " to_money(int) as assignment; create cast (text as int) with inout as assignment;"
        " create function minus(int, int) returns int language sql immutable as 'select $1 * $2';"
        " create operator - (leftarg = int, rightarg = int, function = minus);"
        " create function abs(int) returns int language sql immutable as 'select $1 * 7'",
        "update t set b = id; alter table t alter b drop default, alter b type int",
        "set search_path = casts_and_operators_of_its_own, pg_catalog; alter table t alter a type"
        " bigint using a - 3",
        "set search_path = casts_and_operators_of_its_own, pg_catalog; alter table t alter b type"
        " bigint using abs(b), add c bigint generated always as (abs(id)) stored",
        "alter table t alter c drop expression",
        "alter table t add d int default 4; alter table t alter d drop default, alter d type"
        " money2",
        CHANGE,
        "drop type money2 cascade; insert into t (id) values (12)",
    ),
    case(
        "domains_that_change_under_rows",
        "create domain d as int; create domain dd as d default 3; create table t (id int primary"
        " key, a dd, l int[]); insert into t values (1, 1, '{1}'), (2, 2, null)",
        "alter domain d add constraint pos check (value > 0)",
        "begin; alter domain d drop constraint pos; insert into t values (3, -1, '{-2}'); alter"
        " domain d add constraint low check (value < 10) not valid; commit",
        "alter domain dd set default (random() * 5)::int; alter table t add r dd, add s dd not"
        " null",
        "alter domain dd drop default; alter table t add u dd; insert into t (id, s) values (8, 1)",
        "alter domain d rename constraint low to lower; alter domain d drop constraint if exists"
        " nothing; alter table t alter a type numeric; drop domain dd cascade",
        CHANGE,
    ),
    # Partitions.
    case(
        "bounds_of_every_kind",
        "create schema reach_extra",
        "create table t (id int, k text, a int, b boolean) partition by list (k)",
        "create table t_null partition of t for values in (null, 'it''s')",
        "create table t_r partition of t for values in ('r') partition by range (a, id)",
        "create table t_r1 partition of t_r for values from (minvalue, minvalue) to (10, 5)",
        "create table t_r2 partition of t_r for values from (10, 5) to (maxvalue, maxvalue)",
        "create table t_b partition of t for values in ('b') partition by list (b)",
        "create table t_b1 partition of t_b for values in (true); create table t_b0 partition of"
        " t_b for values in (false, null)",
        "insert into t values (1, null, 1, true), (2, 'it''s', 2, null), (5, 'r', 10, null), (4,"
        " 'r', 10, null), (6, 'b', 6, true), (7, 'b', 7, null)",
        'alter table t rename k to kind; alter table t rename a to "A"',
        "begin; alter table t_r detach partition t_r1; drop table t_r1; create table t_r1 partition"
        " of t_r for values from (minvalue, minvalue) to (3, 0); insert into t values (8, 'r', 1);"
        ' alter table t_r rename to "t r"; alter table t_r1 replica identity full; commit',
        'update t set "A" = 2 where id = 8',
        "alter table t_b set schema reach_extra; insert into t values (9, 'b', 9, false)",
    ),
    case(
        "partition_changes_its_root",
        "create table t (id int, a int, b text) partition by list (a); create table u (b text, id"
        " int, a int) partition by range (a); create table p partition of t for values in (1, 2);"
        " alter table p replica identity full; insert into t values (1, 1, 'x')",
        "begin; alter table t detach partition p; update p set a = 2; alter table p rename to q;"
        " alter table u attach partition q for values from (0) to (10); insert into u values ('y',"
        " 2, 5); alter table t rename to old; alter table u rename to t; insert into t values ('z',"
        " 3, 6); commit",
        "update t set b = 'w'",
        "alter table t detach partition q; alter table old attach partition q default; update old"
        " set b = b || '!' where id = 2",
        "create table deep (like old) partition by list (id); alter table deep add primary key"
        " (id); alter table old detach partition q; alter table q alter id set not null",
        "alter table deep attach partition q for values in (1, 2, 3)",
    ),
    case(
        "unique_indexes_of_partitions_apart",
        "create table t (id int not null, a int not null, b text) partition by list (a);"
        " create table t_1 partition of t for values in (1);"
        " create table t_2 partition of t for values in (2); insert into t values (1, 1), (2, 2)",
        "create unique index u on only t (id, a)",
        "create unique index u1 on t_1 (id, a); alter index u attach partition u1",
        "create unique index concurrently u2 on t_2 (id, a)",
        "alter index u attach partition u2",
        "alter table t replica identity using index u; alter table t_1 replica identity using index"
        " u1; alter table t_2 replica identity using index u2",
        "update t set b = 'x', a = 3 - a",
        "create table t_3 partition of t default; insert into t values (3, 3)",
        "drop index u; alter table t add primary key (id, a); alter table t_1 replica identity"
        " default",
        "update t_1 set b = 'y'",
    ),
    # Names.
    case(
        "schemas_swap_names",
        "create schema swap_a; create schema swap_b; create table swap_a.t (id int primary key, a"
        " int); create table swap_b.t (id int primary key, a int, c text); insert into swap_a.t"
        " values (1, 1); insert into swap_b.t values (1, 2, 'b')",
        "begin; insert into swap_a.t values (2, 2); alter schema swap_a rename to swap_x; insert"
        " into swap_x.t values (3, 3); alter schema swap_b rename to swap_a; insert into swap_a.t"
        " values (4, 4, 'n'); alter schema swap_x rename to swap_b; update swap_b.t set a = 9;"
        " commit",
        "alter table swap_a.t add d int default 4; alter table swap_b.t add e int default 5",
        "update swap_a.t set a = 7; insert into swap_b.t values (7)",
        "begin; alter table swap_a.t set schema schemas_swap_names; alter table swap_b.t set schema"
        " swap_a; alter table t set schema swap_b; insert into swap_a.t values (8, 8); insert into"
        " swap_b.t values (8, 8); commit",
    ),
    case(
        "three_tables_and_what_they_own",
        "create table a (id serial primary key, x int); create table b (id int generated always as"
        " identity primary key, x int); create table c (id int primary key, x text);"
        " insert into a (x) values (1); insert into b (x) values (2); insert into c values (3)",
        "begin; alter table a rename to tmp; alter table b rename to a; alter table c rename to b;"
        " alter table tmp rename to c; insert into a (x) values (10); insert into b values (11);"
        " insert into c (x) values (12); alter sequence a_id_seq rename to s; alter sequence"
        " b_id_seq rename to a_id_seq; alter sequence s rename to b_id_seq; commit",
        "alter table c rename id to x1; alter table c rename x to id; alter table c rename x1 to x",
        "insert into c (id) values (13); update a set x = 5; truncate a restart identity; insert"
        " into a (x) values (14)",
        "begin; drop table a; alter table b rename to a; create table b (like a including all);"
        " insert into b values (1, 1); alter table a rename to d; alter table b rename to a;"
        " commit",
    ),
    case(
        "names_that_pgrepl_might_use",
        f"{T} alter table t add constraint pgrepl_0 check (a > 0), add constraint pgrepl_1 unique"
        " (a, b); create index t_a_b_key on t (id)",
        "alter table t add unique (b, a), add unique (a, id), add check (a < 900)",
        "create unique index pgrepl_index_0 on t (b, id); create unique index on t (b, id)",
        "create table raw_messages (source_id int primary key, seq int, bucket int);"
        " insert into raw_messages values (1, 2, 3); create table ddl_log (id int, kind text,"
        " tables text); insert into ddl_log values (1, 'end', '[]')",
        'alter table t add pgrepl_seq int default 4, add ctid2 int, add "action" text default'
        " 'I', add columns int[] default '{1}'",
        "create table pgrepl_stage (pgrepl_number int primary key); insert into pgrepl_stage"
        " values (1); update pgrepl_stage set pgrepl_number = 2",
        MORE,
        CHANGE,
    ),
    case(
        "names_with_everything_in_them",
        'create schema "Ex tra"; create table "Ex tra"."a\nb" (" id" int primary key, "\'" int);'
        ' insert into "Ex tra"."a\nb" values (1, 1)',
        'alter table "Ex tra"."a\nb" add "x\ty" int default 2, add "$$;--/*" int default 3',
        'alter table "Ex tra"."a\nb" add constraint "c\n1" check ("\'" > 0), add unique ("x\ty",'
        ' "$$;--/*")',
        'alter table "Ex tra"."a\nb" rename constraint "c\n1" to "\\n"; comment on column'
        ' "Ex tra"."a\nb"."\'" is \'"$$\'',
        'alter table U&"Ex tra"."a\nb" rename U&"\\0027" to "\\"',
        'do $x$ begin execute $y$ alter table "Ex tra"."a\nb" add "%I %s" text default $$it\'s;$$'
        " $y$; end $x$",
        'insert into "Ex tra"."a\nb" values (2, 2, 2, 2); alter table "Ex tra"."a\nb" set schema'
        ' names_with_everything_in_them; update "a\nb" set "\\" = 5 + " id"',
        f'alter table "a\nb" rename to "{"日" * 21}"; alter table "{"日" * 21}" rename "\\" to'
        f' "{"é" * 31}"; alter table "{"日" * 21}" add unique ("{"é" * 31}", "%I %s")',
        f'update "{"日" * 21}" set "{"é" * 31}" = 9 where " id" = 1',
    ),
    # Code that runs DDL.
    case(
        "the_same_text_again_and_again",
        T,
        "alter table t add c int default 1; alter table t drop c; alter table t add c int default"
        " 2; insert into t (id) values (11); alter table t drop c; alter table t add c int default"
        " 1; alter table t drop c; alter table t add c int default 1",
        "create function twice() returns void language plpgsql as $$ begin for i in 1..3 loop"
        " alter table t add d int default 5; insert into t (id, d) values (20 + i, i); alter table"
        " t drop d; end loop; alter table t add d int default 6; end $$",
        "select twice() from generate_series(1, 1)",
        "discard all",
        "set search_path = the_same_text_again_and_again; set pgrepl.count = 'x'; set"
        " pgrepl.script = '1 +'; alter table t add e int; alter table t rename e to f",
        "begin; alter table t add g int; alter table t drop g; rollback; begin; alter table t add"
        " g int; alter table t drop g; alter table t add g int default 8; commit",
        CHANGE,
    ),
    case(
        "ddl_in_every_language_at_hand",
        f"{T} create table queue (n int)",
        "create function by_sql(int) returns void language sql as $$ alter table t add s1 text"
        " default ';'; insert into queue values (5); alter table t rename s1 to s2;"
        " create table by_sql (id int primary key, n text default $x$;$x$); $$",
        "create function by_sql(text) returns void language sql as $$ create table never (id int);"
        " $$; select by_sql(1)",
        "create procedure deep(n int) language plpgsql as $$ begin if n > 0 then execute format("
        "'create table deep_%s (id int primary key); insert into deep_%s values (%s)', n, n, n);"
        " call deep(n - 1); else alter table t add bottom int default 3; end if; end $$; call"
        " deep(3)",
        "create function on_row() returns trigger language plpgsql as $$ begin execute format("
        "'alter table t add r%s int default %s', new.n, new.n); return new; end $$; create trigger"
        " tr after insert on queue for each row execute function on_row()",
        "insert into queue values (1), (2); insert into queue select 3",
        "do $$ declare c text; begin foreach c in array array['x', 'y'] loop begin execute 'alter"
        " table t add ' || c || ' int; select 1/' || (case c when 'x' then 0 else 1 end);"
        " exception when others then execute 'alter table t add z' || c || ' int'; end; end loop;"
        " end $$",
        "insert into by_sql values (1); insert into deep_2 values (9)",
        CHANGE,
    ),
    case(
        "savepoints_in_savepoints",
        T,
        "begin; savepoint a; alter table t add c int default 1; savepoint b; alter table t drop c;"
        " create table u as select * from t; rollback to b; insert into t (id, c) values (41, 2);"
        " savepoint d; truncate t; alter table t rename to gone; rollback to d; release b; alter"
        " table t alter c type text; savepoint e; alter table t alter c type int using 5; insert"
        " into t (id, c) values (42, 6); rollback to e; insert into t (id, c) values (43, 'x');"
        " release a; commit",
        "begin; create table u (id int primary key); savepoint a; insert into u values (1); drop"
        " table u; create table u (id text primary key); insert into u values ('lost'); rollback to"
        " a; insert into u values (2); alter table u add n int default 3; commit",
        "begin; savepoint a; select * into v from t; rollback to a; select id, 'kept' as k into v"
        " from t; insert into v values (0, 'more'); commit",
        "begin; savepoint a; drop table v; savepoint b; drop table u; rollback to a; update u set n"
        " = 9; commit",
    ),
    # Inheritance.
    case(
        "columns_that_merge",
        "create table p (id int, a int); create table c (b int) inherits (p); create table d (a"
        " int, x int) inherits (p); insert into c values (1, 1, 1); insert into d values (2, 2, 2)",
        "alter table c add n int default 7; alter table p add n int default 8",
        "insert into c (id) values (3); insert into d (id) values (4)",
        "alter table p drop a; insert into d (id, a) values (5, 5)",
        "alter table p drop n; insert into c (id, n) values (6, 6)",
        "create function make_child() returns void language sql as 'create table e () inherits (p)'"
        "; create function make_child(int) returns void language sql as 'create table e () inherits"
        " (c)'; select make_child(1)",
        "insert into e (id, b) values (7, 7); alter table c drop b; alter table p add constraint k"
        " check (id > 0) no inherit, add constraint l check (id > -1)",
        "alter table e no inherit c; alter table p rename id to key; insert into e (id) values (8)",
        "create table two () inherits (p, d); insert into two values (9); drop table p cascade",
    ),
    case(
        "identity_through_inheritance",
        "create table p (id int generated always as identity primary key, a serial); create table"
        " c (like p including all) inherits (p); insert into p default values; insert into c"
        " default values",
        "alter table p alter id drop identity; alter table c alter a set default 5",
        "insert into p (id) values (7); insert into c default values",
        "alter table c alter id set generated by default; alter table c no inherit p; alter table c"
        " alter id drop identity, alter id set default 9",
        "insert into c default values; alter sequence p_a_seq owned by none; drop table p",
        "insert into c (id) values (10); drop sequence p_a_seq cascade; insert into c (id) values"
        " (11)",
    ),
    # Tables made of others.
    case(
        "tables_of_queries_of_all_kinds",
        f"{T} create type pair as (x int, y text); create domain dom as int default 5",
        "create table u (k, \"V\", w) with (fillfactor = 50) as select id, b, 'lit' from t",
        "prepare q as select id, row(a, b)::pair as p, a::dom as d, array[b] as l, null as n from t"
        " where id > $1; create table v as execute q(1); deallocate q",
        "create table w as select t as whole, count(*) over () as c, '2020-01-01'::date + id as d,"
        ' 1.5 * a as n, b collate "C" as col from t',
        "create table x as select from t; create table y as values (1, null, '{}'::int[]); create"
        " table z (one) as select generate_series(1, 3) with no data; insert into z values (4)",
        "do $$ begin begin create table again as select 1 / (id - 1) from t; exception when others"
        " then create table again as select id from t; end; create table if not exists again as"
        " select 2; create unlogged table un as select 1 as o; end $$",
        "create table here as select 1 as n; drop table here; create table here as select 'x' as n;"
        " alter table here rename n to m; select 2 as n into there",
        "with moved as (delete from t where id = 1 returning *) insert into x select from moved",
        "alter table v add primary key (id); update v set n = 'u'; update t set a = 9",
    ),
    case(
        "like_what_is_not_there",
        f"{T} create view vw as select id, b from t; create type ct as (x int, y text);"
        " create unlogged table un (id int primary key, g int generated always as (id * 2) stored,"
        " n serial, check (id > 0)); create statistics st on a, b from t; comment on table t is"
        " 'c'",
        "create table a (like vw, more int default 3); insert into a values (1, 'x')",
        "create table b (like ct including all); insert into b values (1, 'x')",
        "create table c (like un including all); insert into c (id) values (1)",
        "create temporary table tm (id int primary key, z text default 'z'); create table d (like"
        " tm including all); insert into d values (1)",
        "create table e (like t including all, check (a < 100), unique (b)); insert into e select *"
        " from t",
        "alter table e add foreign key (id) references t; alter table c alter g drop expression",
        "update e set a = 5 where id = 1; update c set g = 9",
    ),
    # Tables of odd shapes.
    case(
        "tables_without_columns",
        "create table z (); insert into z default values",
        "insert into z default values; alter table z add c int default 3",
        "insert into z values (4); alter table z drop c",
        "insert into z default values; create table y (); insert into y select from z",
        "alter table y add id int; alter table y add g int generated always as (1) stored, add h"
        " text generated always as ('x' || 2) stored; alter table y drop id; insert into y default"
        " values",
        "create table x (id int generated always as identity primary key); insert into x default"
        " values; insert into x default values; delete from x where id = 1",
    ),
    case(
        "wide_table_grows",
        "create table t (id int primary key, a int, b text); insert into t values (1, 1), (2, 2)",
        "do $$ begin execute 'alter table t ' || (select string_agg(format('add c%s int default"
        " %s', g, g), ', ') from generate_series(1, 600) g); end $$",
        "update t set c300 = -1 where id = 1; insert into t (id) values (3)",
        "do $$ begin execute 'alter table t ' || (select string_agg(format('drop c%s', g), ', ')"
        " from generate_series(1, 600, 2) g); end $$",
        "update t set id = 33 where id = 3; update t set c2 = null where id = 2",
        "do $$ begin for i in 1..3 loop execute 'alter table t ' || (select string_agg(format('add"
        " d%s int', g), ', ') from generate_series(i * 200, i * 200 + 199) g); end loop; end $$",
        CHANGE,
    ),
    case(
        "table_becomes_a_view",
        f"{T} create table v (id int, a int)",
        'do $$ begin create rule "_RETURN" as on select to v do instead select id, a from t;'
        " exception when others then drop table v; create view v as select id, a from t; end $$",
        "drop view v; create table v (id text primary key); insert into v values ('x')",
        "update v set id = 'y'",
        CHANGE,
    ),
    # CASCADE.
    case(
        "cascade_from_odd_objects",
        f"{T} create collation co from \"C\"; alter table t add c text collate co default 'c';"
        " create text search configuration tsc (copy = simple); alter table t add v tsvector"
        " generated always as (to_tsvector('tsc', 'x y')) stored; create sequence sq; alter table t"
        " add n int default nextval('sq'); create access method heap3 type table handler"
        " heap_tableam_handler; create table m (id int) using heap3; insert into m values (1);"
        " update t set n = 1",
        "drop collation co cascade; insert into t (id) values (51)",
        "drop text search configuration tsc cascade; insert into t (id) values (52)",
        "drop sequence sq cascade; insert into t (id) values (53)",
        "drop access method heap3 cascade; alter table t add k int default 4",
        "create schema cas; create table p (id int, a int) partition by list (a); create table"
        " cas.p_1 partition of p for values in (1); create table cas.r (id int primary key);"
        " create table f (id int references cas.r); insert into p values (1, 1); insert into cas.r"
        " values (1); insert into f values (1)",
        "drop schema cas cascade; insert into f values (9)",
        "create table p_2 partition of p for values in (1, 2); insert into p values (2, 2); drop"
        " table p cascade",
        CHANGE,
    ),
    case(
        "dropped_with_others",
        f"{T} create unlogged table un (id int); create view vw as select 1 as one; create table u"
        " (id int primary key)",
        "create temporary table tm (id int); drop table tm, un, u; drop table if exists t_no, tm",
        "create table u (id int primary key, t_id int references t); insert into u values (1, 1);"
        " create table w (id int); drop table w, u cascade",
        "alter table if exists nothing add c int; alter table t add column if not exists a text,"
        " add column if not exists c int default 1; alter table t drop column if exists zz, drop"
        " column if exists c; drop index if exists no; drop schema if exists no cascade",
        "create table u (id int); insert into u values (3)",
        MORE,
        CHANGE,
    ),
    # Keys.
    case(
        "index_that_became_valid",
        "create table t (id int not null, a int, b text); insert into t values (1, 1), (1, 2), (2,"
        " 2)",
        "-- fails\ncreate unique index concurrently u on t (id)",
        "delete from t where a = 2 and id = 1",
        "reindex index concurrently u",
        "alter table t replica identity using index u",
        CHANGE,
        "alter table t add constraint k unique using index u",
        "delete from t where id = 1; alter table t rename constraint k to l; insert into t values"
        " (5, 5)",
    ),
    case(
        "keys_change_hands",
        f"{T} create table c (id int primary key, t_id int references t deferrable); insert into c"
        " values (1, 1)",
        "begin; alter table c drop constraint c_t_id_fkey; update t set id = id + 100; update c set"
        " t_id = 101; alter table t drop constraint t_pkey, add unique (id), alter id set not null;"
        " alter table t replica identity using index t_id_key; update t set id = id - 100; update c"
        " set t_id = 1; alter table c add foreign key (t_id) references t (id); commit",
        "alter table t drop constraint t_id_key cascade; alter table t replica identity full;"
        " insert into t select * from t; delete from t where id = 2; update t set b = 'z'",
        "create table n (id int, at int, unique nulls not distinct (id, at)); insert into n values"
        " (1, null); alter table n replica identity full; update n set at = 4; alter table n alter"
        " at set not null, alter id set not null, add primary key (id, at); update n set at = 5",
    ),
    case(
        "due_and_then_another",
        T,
        "alter table t add r float8 default random()",
        "begin; alter table t rename to u; create table t (id int primary key, a int); insert into"
        " t values (1, 1); commit",
        "begin; drop table u; alter table t rename to u; create table t (id int primary key, a int"
        " default 3, s float8 default random()); insert into t values (2); commit",
        "alter table t add q float8 default random(); alter table t rename to w; alter table u"
        " rename to t; alter table w rename to u; insert into u values (8, 8)",
        CHANGE,
        "alter table u set schema reach_extra; alter table reach_extra.u rename to due_u; update"
        " reach_extra.due_u set a = 4",
    ),
    # Rows and DDL of one transaction.
    case(
        "dropped_and_made_again_with_rows",
        T,
        "begin; insert into t values (61, 61); drop table t; create table t (id text primary key,"
        " x date default '2020-01-01'); insert into t values ('a'); alter table t add a int"
        " default 3; update t set a = 4; drop table t; create table t (id int primary key, a int);"
        " insert into t values (1, 1); commit",
        "begin; truncate t; insert into t values (2, 2); create table u (like t including all);"
        " insert into u select * from t; truncate t, u; insert into u values (3, 3); alter table u"
        " alter a type text using a || '!'; insert into u values (4, '4'); commit",
        "begin; update t set a = 1; delete from t; alter table t drop a; insert into t values (5);"
        " alter table t add a int generated always as (id * 2) stored; insert into t values (6);"
        " alter table t alter a drop expression; update t set a = 0 where id = 6; commit",
        "begin; alter table u add big text; alter table u alter big set storage external; insert"
        " into u values (9, '9', repeat('x', 9000)); alter table u add c int default 1; update u"
        " set c = 2 where id = 9; alter table u rename big to large; update u set c = 3 where id ="
        " 9; commit",
    ),
    case(
        "roles_and_privileges",
        f"{T} create role reach_low; grant usage, create on schema roles_and_privileges to"
        " reach_low",
        "set role reach_low; create table low (id int primary key, a int) ; insert into low values"
        " (1, 1); alter table low enable row level security, force row level security; insert into"
        " low select 2, 2 where false; reset role",
        "grant select (id), update (a) on t to reach_low with grant option; revoke all on t from"
        " public; alter default privileges in schema roles_and_privileges grant select on tables"
        " to reach_low; create table u (id int primary key); insert into u values (1)",
        "comment on table t is null; comment on column t.a is E'line\\n\\'two\\''; comment on"
        " schema roles_and_privileges is 'x'; comment on role reach_low is 'low'",
        "set role reach_low; alter table low disable row level"
        " security; alter table low add c int default 2; insert into low values (5, 5, 5)",
        "reset role; reassign owned by reach_low to current_user; drop owned by reach_low cascade;"
        " drop role reach_low; update low set a = 0",
        CHANGE,
    ),
)
