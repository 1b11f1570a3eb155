"""Odd names, keys, types and rows, and all of it in one transaction."""

from __future__ import annotations

from tests.support.ddl.reach_case import CHANGE, T, case

_PERCENT = '"50% %s %(a)s {0}"'

KIND_SCENARIOS = (
    # Words and names.
    case(
        "words_of_later_versions",
        "create table t (id int primary key, system_user text, json_table int); insert into t"
        " values (1, 'x', 1); create unique index on t (system_user)",
        "alter table t add constraint k unique (system_user, id), add check (system_user <> 'y')",
        "alter table t add json_exists int default 4, add merge_action int",
        "insert into t values (2, 'z', 2)",
        "alter table t alter system_user set default 'd', alter system_user type varchar(20)",
        "alter table t rename json_table to json_query",
        "create table u (system_user int primary key, g int generated always as (system_user * 2)"
        " stored); insert into u values (1)",
        "insert into t (id) values (3)",
        "update t set json_query = 8 where system_user = 'x'",
        "alter table t rename system_user to plain; alter table t drop constraint k",
        "create table system_user (id int primary key); insert into system_user values (1)",
        "alter table system_user add b int default 3; alter table system_user rename to later;"
        " insert into later values (2, 2)",
    ),
    case(
        "percents_in_names_and_keys",
        f'create table {_PERCENT} ("%s" int primary key, "%" text, "%%b" int); insert into'
        f" {_PERCENT} values (1, 'x', 1), (2, '%s', 2);"
        ' create table "100%" (id int, "%(k)s" text); alter table "100%" replica identity full;'
        " insert into \"100%\" values (1, '%')",
        f'update {_PERCENT} set "%" = \'y%\' where "%s" = 1; delete from {_PERCENT} where "%s" = 2',
        f'alter table {_PERCENT} add "%t" float8 default random()',
        f"update {_PERCENT} set \"%%b\" = 4; insert into {_PERCENT} values (3, 'z', 3, 3)",
        'update "100%" set id = 2; insert into "100%" values (3, \'%%\')',
        'begin; truncate "100%"; insert into "100%" values (4, \'q\'); alter table "100%" rename to'
        ' "%"; alter table "%" add "%d" int default 4, add primary key (id); commit',
        'update "%" set "%d" = 5; create schema "re%s"; alter table "%" set schema "re%s"',
        'insert into "re%s"."%" values (9, \'z\', 9); alter schema "re%s" rename to "reach_%"',
        'update "reach_%"."%" set id = 10 where id = 9; alter table "reach_%"."%" alter "%d" type'
        " text using random()::text",
        f'alter table {_PERCENT} set schema "reach_%"; insert into "reach_%".{_PERCENT} values (5)',
    ),
    case(
        "called_alike",
        "create table called_alike (called_alike int primary key, a int); insert into called_alike"
        " values (1, 1)",
        "alter table called_alike.called_alike add check (called_alike.called_alike > 0), add"
        " constraint called_alike check (called_alike.called_alike < 1000)",
        "alter table called_alike alter a type bigint using called_alike.called_alike * 2",
        "create unique index on called_alike (called_alike) where called_alike.a > 0",
        "alter table called_alike add g int generated always as (called_alike.called_alike + 1)"
        " stored",
        "alter table called_alike rename called_alike to b; alter table called_alike rename a to"
        " called_alike",
        "insert into called_alike values (2, 2); alter table called_alike rename to public",
        "alter table public add check ((public.b) > 0), add whole boolean; insert into public"
        " values (3, 3)",
    ),
    case(
        "children_called_like_their_parents",
        "create schema reach_kin; create table t (id int primary key, a int, b text); create table"
        " reach_kin.t (c int) inherits (t); alter table reach_kin.t add primary key (id); insert"
        " into t values (1, 1, 'x'); insert into reach_kin.t values (2, 2, 'y', 2); create table p"
        " (id int, a int) partition by list (a); create table reach_kin.p (a int, id int); insert"
        " into reach_kin.p values (1, 1)",
        "alter table t add d int default 7",
        "alter table t rename a to aa",
        "insert into reach_kin.t (id, aa) values (3, 3); insert into t (id, aa) values (4, 4)",
        "alter table t alter b type varchar(30) using b || '!'",
        "alter table t drop column aa",
        "begin; alter table p attach partition reach_kin.p for values in (1); alter table p rename"
        " id to key; alter table p add e int default 8; commit",
        "insert into p values (5, 1)",
        "alter table p detach partition reach_kin.p",
        "insert into reach_kin.p (key) values (6)",
    ),
    case(
        "kinds_take_turns_with_a_name",
        "create view x as select 1 as a; create sequence y; create type z as (a int)",
        "begin; drop view x; create table x (id int primary key); insert into x values (1); commit",
        "begin; drop sequence y; create table y (id int primary key); insert into y values (1);"
        " drop table y; create sequence y; drop sequence y; create table y (id text primary key);"
        " insert into y values ('z'); commit",
        "drop type z; create table z (id int primary key); insert into z values (1)",
        "begin; drop table z; create type z as enum ('q'); create table w (id z primary key);"
        " insert into w values ('q'); commit",
        "begin; alter table x rename to x1; create view x as select * from x1; insert into x values"
        " (2); commit",
        "insert into x values (3)",
        "begin; drop view x; create materialized view x as select 1 as n; drop materialized view x;"
        " alter table x1 rename to x; commit",
        "update x set id = 10 where id = 1; create table x_id_seq (id int primary key); insert into"
        " x_id_seq values (1); alter table x add n serial",
        "insert into x values (20, 20)",
    ),
    case(
        "no_columns",
        "create table z (); insert into z default values; create table o (a int); insert into o"
        " values (1), (2); alter table o replica identity full",
        "insert into z default values",
        "alter table o drop a",
        "insert into o default values",
        "alter table z add a int default 3",
        "alter table z replica identity full; insert into z values (4)",
        "update z set a = 5 where a = 4",
        "create table n (); insert into n default values; create table s as select from o",
        "alter table o add b int; insert into o values (9)",
    ),
    case(
        "table_that_hides_another",
        "create schema reach_hide; create table t (id int primary key, a int); insert into t values"
        " (1, 1)",
        "set search_path = reach_hide, table_that_hides_another; create table reach_hide.t (like t"
        " including all); insert into reach_hide.t values (5, 5); alter table t add b int default"
        " 4; alter table table_that_hides_another.t add c int default 5",
        "set search_path = ''; alter table reach_hide.t rename to t2; alter table"
        " table_that_hides_another.t add constraint f foreign key (id) references"
        " table_that_hides_another.t",
        "set search_path = reach_hide, table_that_hides_another; begin; select"
        " set_config('search_path', 'table_that_hides_another', true); alter table t drop"
        " constraint f; alter table t rename to t3; commit; alter table t2 rename to t",
        "insert into t3 values (7, 7); insert into reach_hide.t values (7, 7)",
        "create function late_path() returns void language plpgsql security definer set search_path"
        " = table_that_hides_another, pg_temp as $$ begin perform set_config('search_path',"
        " 'reach_hide', true); alter table t add z int default 1; end $$; select"
        " late_path()",
        "insert into reach_hide.t (id) values (8)",
    ),
    case(
        "schemas_made_by_their_names",
        "create schema reach_s1; create table reach_s1.t (id int primary key); insert into"
        " reach_s1.t values (1)",
        "begin; alter schema reach_s1 rename to reach_s2; create schema reach_s1; alter table"
        " reach_s2.t set schema reach_s1; drop schema reach_s2; insert into reach_s1.t values (2);"
        " commit",
        "set search_path = reach_s1; alter schema reach_s1 rename to reach_s2; create schema"
        " reach_s1; create table t (x text primary key); insert into t values ('s1'); alter table"
        " reach_s2.t add a int default 3",
        "begin; insert into reach_s2.t values (5, 5); drop schema reach_s1 cascade; alter schema"
        " reach_s2 rename to reach_s1; insert into reach_s1.t values (6, 6); commit",
        "update reach_s1.t set a = 0 where id = 5",
    ),
    # Columns, keys and types.
    case(
        "widest_table",
        "do $$ begin execute 'create table t (id int primary key, ' || (select string_agg(format("
        "'c%s int', g), ', ') from generate_series(1, 1590) g) || ')'; end $$; insert into t (id,"
        " c1, c1590) values (1, 1, 1), (2, 2, 2)",
        "update t set c2 = 5 where id = 1",
        "alter table t add d1 int default 7, add d2 text default 'x'",
        "update t set d1 = 8, c1590 = 9 where id = 2; insert into t (id) values (3)",
        "begin; alter table t rename c1 to first; alter table t alter c2 type bigint; delete from t"
        " where id = 3; insert into t (id, first) values (4, 4); commit",
        "alter table t drop c3, add d3 float8 default random()",
        "update t set d3 = 1.5 where id = 1",
    ),
    case(
        "key_retyped_among_changes",
        f"{T} create table c (id int primary key, t_id int references t on update cascade); insert"
        " into c values (1, 1), (2, 2)",
        "begin; update t set id = 50 where id = 1; alter table c drop constraint c_t_id_fkey; alter"
        " table t alter id type text using 'k' || id; alter table c alter t_id type text using 'k'"
        " || t_id; alter table c add foreign key (t_id) references t on update cascade; update t"
        " set id = 'first' where id = 'k50'; delete from c where id = 2; delete from t where id ="
        " 'k2'; insert into t values ('k9', 9); commit",
        "update t set a = 100 where id = 'first'; update t set id = 'last' where a = 9",
        "begin; alter table t add n int; update t set n = a; alter table t drop constraint t_pkey"
        " cascade; alter table t alter n set not null, add primary key (n); alter table t drop id;"
        " update t set n = n + 1; alter table t rename n to id; delete from t where id = 101;"
        " commit",
        "insert into t (id, a) values (77, 77)",
    ),
    case(
        "keys_of_partitions_apart",
        "create table t (id int not null, a int not null, b text) partition by list (a); create"
        " table t_1 partition of t for values in (1); create table t_2 (b text, a int not null, id"
        " int not null); alter table t attach partition t_2 for values in (2); insert into t values"
        " (1, 1), (2, 2)",
        "alter table only t add constraint k primary key (id, a)",
        "alter table t_1 add constraint k1 primary key (id, a); alter index k attach partition k1",
        "update t_1 set b = 'x'",
        "alter table t_2 add constraint k2 primary key (id, a); alter index k attach partition k2",
        "update t set b = 'y', a = 3 - a",
        "create table t_3 partition of t (b default 'z', constraint own check (id < 1000)) for"
        " values in (3); insert into t (id, a) values (3, 3)",
        "alter table t_3 alter b set default 'q', drop constraint own; insert into t_3 (id, a)"
        " values (4, 3)",
        "alter table t detach partition t_3; alter table t_3 drop constraint t_3_pkey, add d int;"
        " alter table t_3 add unique (id); insert into t_3 values (5, 5, 'x', 5)",
    ),
    case(
        "keys_to_itself",
        "create table p (id int primary key, up int references p) partition by range (id);"
        " create table p_1 partition of p for values from (0) to (10); create table p_2 partition"
        " of p for values from (10) to (20); insert into p values (1, 1), (11, 1)",
        "create table p_3 partition of p for values from (20) to (30)",
        "insert into p values (21, 11)",
        "alter table p drop constraint p_up_fkey",
        "alter table p add constraint up foreign key (up) references p on delete cascade",
        "delete from p where id = 11",
        "alter table p detach partition p_3",
        "insert into p_3 values (22, 1)",
        "alter table p attach partition p_3 for values from (20) to (30)",
        "alter table p rename constraint up to down; alter table p rename id to key",
        "insert into p values (12, 22)",
    ),
    case(
        "arrays_of_everything",
        "create domain pos as int check (value > 0); create type pair as (x pos, y text); create"
        " domain duo as pair check ((value).x < 100); create type e as enum ('a', 'b'); create"
        " type er as range (subtype = e); create table t (id int primary key, a int, l pos[], d"
        " duo[], m e[][], r er[]); insert into t values (1, 1, '{1,2}', array['(1,x)'::duo],"
        " '{{a,b},{b,a}}', '{\"[a,b]\"}')",
        "alter type e rename value 'a' to 'A'; alter type e add value 'c'",
        "insert into t values (2, 2, '{3}', array['(2,y)'::duo, null], '{{c}}', '{\"[A,c)\"}')",
        "alter domain pos drop constraint pos_check",
        "update t set l = '{-1}', m = null where id = 1",
        "alter table t alter l type int[], alter m type text[] using m::text[]",
        "alter domain duo rename to duo2; alter type pair rename to pair2; alter type er set schema"
        " public; alter type public.er set schema arrays_of_everything",
        "alter table t drop r; drop type er; update t set d = '{}' where id = 1",
        CHANGE,
    ),
    case(
        "unlogged_under_other_names",
        T,
        "alter table t set unlogged",
        "insert into t values (20, 20)",
        "alter table t rename to u; create table t (id int primary key, x text); insert into t"
        " values (1, 'new')",
        "alter table u set logged",
        "insert into u values (21, 21)",
        "create table p (id int, a int, primary key (id, a)) partition by list (a); create unlogged"
        " table p_1 partition of p for values in (1); insert into p values (1, 1); create table p_2"
        " partition of p for values in (2); insert into p values (2, 2)",
        "alter table p_1 rename to p_one; alter table p_one set logged; insert into p values (3,"
        " 1)",
        "begin; alter table p_2 set unlogged; update p set a = 3 - a; alter table p_2 set logged;"
        " commit",
        "update p set a = 2 where id = 3; update p set a = 1 where id = 3",
        "begin; alter table u set unlogged; alter table u rename to v; alter table v set logged;"
        " insert into v values (30, 30); commit",
        "update v set a = 0",
    ),
    case(
        "temporary_types_and_sequences",
        f"{T} create schema reach_tmp",
        "create temp sequence ts; alter table t add n int default nextval('ts')",
        "insert into t (id, a) values (10, 10)",
        "create temp table pt (id int) on commit delete rows; create index on pg_temp.pt (id);"
        " create temp view tv as select * from t; alter table pt add x int; comment on table pt is"
        " 'x'; create type pg_temp.te as enum ('a'); alter type pg_temp.te add value 'b'; create"
        " domain pg_temp.td as int; alter domain pg_temp.td set default 4; create function"
        " pg_temp.tf() returns int language sql as 'select 1'",
        "create table kept (id int primary key, a int); create temp table shadow as select * from"
        " kept; drop table shadow, kept cascade; create table pg_temp.more (id int); drop table"
        " more",
        "insert into t (id, a) values (11, 11)",
        "drop table pt; truncate t; insert into t values (1, 1, 'x', 1)",
    ),
    case(
        "defaults_that_are_made_in_the_row",
        T,
        "alter table t alter a set default (random() * 10)::int, alter b set default now()::text",
        "insert into t (id) values (11)",
        "create table u (id int generated by default as identity (start 5), k uuid default"
        " gen_random_uuid() primary key, at timestamptz default clock_timestamp(), t text default"
        " current_user || pg_backend_pid())",
        "insert into u default values; insert into u default values",
        "begin; create table v (like u including all); insert into v select * from u; insert into v"
        " default values; alter table v alter at set default 'infinity', alter at type date using"
        " null; insert into v default values; commit",
        "alter table u add c timestamptz default now() not null, add d text default txid_current()",
        "insert into u default values",
        "update v set t = 'x'",
    ),
    case(
        "truncated_between_structures",
        "create table p (id int primary key) ; create table c (x int) inherits (p); insert into p"
        " values (1); insert into c values (2, 2); create table q (id int, a int) partition by list"
        " (a); create table q_1 partition of q for values in (1); insert into q values (1, 1);"
        " create table f (id int primary key, p int references p); insert into f values (1, 1)",
        "begin; truncate only p cascade; insert into p values (5); alter table c no inherit p;"
        " truncate p cascade; insert into p values (6); alter table c inherit p; insert into c"
        " values (7, 7); commit",
        "begin; truncate q; create table q_2 partition of q for values in (2); insert into q values"
        " (2, 2); alter table q detach partition q_1; truncate q; insert into q_1 values (9, 9);"
        " alter table q_1 rename to old; truncate old; insert into old values (8, 8); insert into q"
        " values (3, 2); commit",
        "truncate p, c, f, q restart identity cascade; insert into p values (1)",
        "begin; savepoint a; truncate p cascade; alter table p add y int; rollback to a; insert"
        " into p values (2); commit",
    ),
    case(
        "rules_views_and_rows",
        f"{T} create table u (id int primary key, a int); create rule twice_ as on insert to t do"
        " also insert into u values (new.id, new.a); create view w as select id, a from t where a"
        " > 0 with check option; alter table t enable row level security; alter table t force row"
        " level security; create policy own_rows on t using (id < 100)",
        "insert into t (id, a) values (7, 7)",
        "alter table t disable rule twice_; insert into t (id, a) values (8, 8); alter table t"
        " enable rule twice_; alter table t rename id to key",
        "insert into w values (9, 9); update w set a = a + 1",
        "begin; drop view w; drop rule twice_ on t; alter table t alter a type bigint; create view"
        " w as select key as id, a from t; insert into w values (10, 5000000000); commit",
        "alter view w rename to ww; alter table t rename to w; insert into w (key, a) values (11,"
        " 11)",
        "create or replace view ww as select key as id, a, b from w; alter table w drop b cascade",
        "insert into w values (12, 12)",
    ),
    case(
        "one_transaction_of_all",
        "create type e as enum ('a'); create table t (id serial primary key, e e, j jsonb); insert"
        " into t (e, j) values ('a', '{}'); create table p (id int, k int) partition by hash (id)",
        "begin; create table p_0 partition of p for values with (modulus 2, remainder 0); create"
        " table p_1 (k int, junk text, id int); alter table p_1 drop junk; alter table p attach"
        " partition p_1 for values with (modulus 2, remainder 1); insert into p select g, g from"
        " generate_series(1, 9) g; alter table p add primary key (id); savepoint s; alter table p"
        " rename k to kk; update p set kk = 0; rollback to s; create type e2 as enum ('x', 'a');"
        " alter table t alter e type e2 using e::text::e2; drop type e; alter type e2 rename to e;"
        " insert into t (e) values ('x'); alter table t add g int generated always as (id * 2)"
        " stored; alter table t rename to t_old; create table t (like t_old including all); insert"
        " into t (e, j) select e, j from t_old; alter sequence t_id_seq owned by t.id; drop table"
        " t_old; update t set j = '[1]' where e = 'x'; alter table p detach partition p_0; drop"
        " table p; alter table p_0 rename to p; insert into p values (100, 100); commit",
        "insert into t (e) values ('a')",
        "update p set k = 7 where id = 100",
    ),
    case(
        "constraints_under_way",
        f"{T} create table u (id int primary key, t_id int); insert into u values (1, 1)",
        "begin; alter table u add constraint f foreign key (t_id) references t deferrable initially"
        " deferred; insert into u values (2, 99); insert into t values (99, 99); commit",
        "begin; set constraints all deferred; delete from t where id = 99; update u set t_id = 1"
        " where id = 2; set constraints all immediate; alter table t add c int; commit",
        "alter table t add constraint x exclude (a with =) deferrable; alter table t add constraint"
        " chk check (a is not null) not valid; alter table t validate constraint chk; alter table t"
        " alter a set not null; alter table t drop constraint chk",
        "alter table u drop constraint f; alter table u add constraint f foreign key (t_id)"
        " references t match full on update set default on delete set default not valid",
        "insert into u values (3, 2); alter table u alter constraint f deferrable",
        "alter table t drop constraint x",
        "create unique index concurrently ux on t (a) include (b)",
        "alter table t add constraint x unique using index ux; alter table t replica identity"
        " using index x",
        "update t set b = 'x', id = 50 where a = 3; delete from u where id = 3",
    ),
    case(
        "columns_called_like_dropped_ones",
        T,
        'alter table t drop a, add "........pg.dropped.3........" int default 5',
        'alter table t rename "........pg.dropped.3........" to "........pg.dropped.9........"',
        'alter table t add "tableoid " int default 1, add "CTID" int default 2, add "oid" int',
        'insert into t (id, "........pg.dropped.9........") values (9, 9)',
        'update t set "CTID" = 7, oid = 8 where id = 9',
    ),
    case(
        "children_of_many_parents",
        "create table a (id int, x int); create table b (id int, y text); create table c (z int)"
        " inherits (a); alter table c add primary key (id); insert into c values (1, 1, 1); insert"
        " into a values (2, 2)",
        "alter table c add y text; alter table c inherit b",
        "alter table a add w int default 1; alter table c add v int default 2; alter table b add v"
        " int default 3",
        "insert into c (id) values (10)",
        "update a set x = 0 where x is null",
        "alter table b drop v; alter table a alter x set not null; alter table only a drop w",
        "insert into c (id, x) values (11, 11)",
        "begin; alter table c no inherit a; alter table a rename x to xx; alter table c rename x to"
        " xx; alter table c inherit a; insert into c (id, xx) values (12, 12); commit",
        "alter table a add check (xx >= 0); alter table a add unique (id)",
        "begin; alter table a rename to a1; alter table c rename to a; alter table a1 rename to c;"
        " insert into a (id, xx) values (13, 13); insert into c values (14, 14); commit",
        "alter table a no inherit b; drop table b; alter table c alter xx type bigint",
        "insert into a (id, xx) values (15, 5000000000)",
    ),
    case(
        "like_of_all_kinds",
        f"{T} create view v as select id, a * 2 as twice from t; create materialized view m as"
        " select * from t; create type ct as (x int, y text); create foreign data wrapper lf;"
        " create server ls foreign data wrapper lf; create foreign table ft (q int default 5)"
        " server ls; create statistics st on a, b from t",
        "create table l1 (like v); create table l2 (like m, like ct); create table l3 (like ft"
        " including defaults); create table l4 (like t including all, own int"
        " default 1)",
        "insert into l1 values (1, 2); insert into l2 values (1, 2, 'x', 3, 'y'); insert into l3"
        " default values; insert into l4 (id) values (1)",
        "drop foreign data wrapper lf cascade; drop materialized view m; drop view v",
        "alter table l4 alter own type text; update l4 set a = 1",
        "create table l5 (like l4 including storage including comments including compression) with"
        " (fillfactor = 60, toast.autovacuum_enabled = false); insert into l5 values (1)",
    ),
    case(
        "grants_and_owners",
        f"{T} create role reach_g1; create role reach_g2",
        "grant usage on schema grants_and_owners to reach_g1; grant select on all tables in schema"
        " grants_and_owners to reach_g1 with grant option; grant update (a) on t to reach_g2",
        "alter table t owner to reach_g1; alter schema grants_and_owners owner to reach_g1",
        "set role reach_g1; alter table t add c int default 2; create table his (id int primary"
        " key); insert into his values (1); set role none; reassign owned by reach_g1 to reach_g2",
        "set role reach_g2; alter table t rename to t2; insert into t2 (id, a) values (50, 50);"
        " reset role",
        "reassign owned by reach_g1, reach_g2 to current_user; drop owned by reach_g1, reach_g2",
        "drop role reach_g1; drop role reach_g2; insert into his values (2)",
    ),
)
