"""DDL at its worst: chains in a transaction, savepoints, functions, triggers, names of 63 bytes."""

from __future__ import annotations

from tests.support.ddl.reach_case import CHANGE, MORE, T, case

_LONG = "ü" * 31 + "x"
_EVENT_TRIGGER = (
    "create function {name}() returns event_trigger language plpgsql as $$"
    " declare made text; begin for made in select objid::regclass from"
    " pg_event_trigger_ddl_commands() where object_type = 'table' and schema_name = '{schema}'"
    " loop execute 'alter table ' || made || ' add if not exists {name} int default 4'; end loop;"
    " end $$; create event trigger {name} on ddl_command_end when tag in ('CREATE TABLE')"
    " execute function {name}()"
)

HOSTILE_SCENARIOS = (
    # Chains of names.
    case(
        "tables_swap_names",
        f"{T} create table u (id int primary key, a int, b text); insert into u values (2, 50);",
        "begin; alter table t rename to x; insert into x values (11, 1); alter table u rename to t;"
        " insert into t values (12, 2); alter table x rename to u; update u set a = 77 where"
        " id = 1; update t set a = 78 where id = 2; commit",
        "alter index t_pkey rename to x_pkey; alter index u_pkey rename to t_pkey;"
        " alter index x_pkey rename to u_pkey",
        CHANGE,
        "update u set b = 'q' where id = 11",
    ),
    case(
        "columns_swap_names",
        T.replace("b text default 'b'", "b int default 7").replace("'r' || g", "g * 100"),
        "begin; alter table t rename a to x; alter table t rename b to a; insert into t (id, x)"
        " values (11, 1); alter table t rename x to b; insert into t (id, b) values (12, 2);"
        " commit",
        MORE,
        CHANGE,
        "begin; alter table t drop a; alter table t add a text default 'new'; update t set a = 'u'"
        " where id = 1; alter table t drop b, add b int; update t set b = 3 where id = 2; commit",
        "insert into t (id) values (20)",
    ),
    case(
        "partitions_swap_names",
        "create table t (id int, a int, primary key (id, a)) partition by list (a);"
        " create table t_1 partition of t for values in (1);"
        " create table t_2 partition of t for values in (2); insert into t values (1, 1), (2, 2)",
        "begin; alter table t detach partition t_1; alter table t detach partition t_2;"
        " alter table t_1 rename to x; alter table t_2 rename to t_1; alter table x rename to t_2;"
        " update t_2 set a = 2; update t_1 set a = 1; alter table t attach partition t_1 for"
        " values in (1); alter table t attach partition t_2 for values in (2); commit",
        "insert into t values (3, 1), (4, 2)",
        "update t set a = 3 - a where id = 3",
    ),
    case(
        "moved_around_in_one_transaction",
        f"{T} create schema moved_b; create schema moved_c; create type ty as enum ('x', 'y');"
        " create sequence sq; alter table t add e ty default 'x', add n int default nextval('sq')",
        "begin; alter table t set schema moved_b; insert into moved_b.t (id) values (21);"
        " alter type ty set schema moved_c; alter sequence sq set schema moved_c; alter table"
        " moved_b.t set schema moved_c; update moved_c.t set e = 'y' where id = 1; commit",
        "insert into moved_c.t (id) values (22)",
        "alter table moved_c.t set schema moved_around_in_one_transaction",
        "drop schema moved_b",
        CHANGE,
    ),
    case(
        "shadow_table_takes_over",
        "create table t (id bigserial primary key, a int); insert into t (a) values (1), (2)",
        "create table t_new (like t including all); alter table t_new add b text",
        "insert into t_new select *, 'copied' from t",
        "begin; lock table t; insert into t_new (a, b) values (3, 'late'); alter table t rename to"
        " t_old; alter table t_new rename to t; alter sequence t_id_seq owned by t.id;"
        " drop table t_old; commit",
        "insert into t (a, b) values (4, 'after')",
        CHANGE,
    ),
    # Transactions.
    case(
        "savepoints_rolled_back",
        T,
        "begin; savepoint a; alter table t drop b; insert into t values (30, 30); rollback to a;"
        " insert into t values (31, 31, 'kept'); savepoint b; alter table t add c int default 9;"
        " insert into t values (32, 32, 'c', 1); release b; savepoint c; create table gone (id"
        " int); insert into gone values (1); alter table t rename to lost; drop table lost;"
        " rollback to c; update t set c = 10 where id = 1; commit",
        "begin; alter table t add lost int; rollback",
        CHANGE,
    ),
    case(
        "exceptions_in_blocks",
        T,
        "do $$ begin alter table t add c int; begin alter table t add d int; insert into t values"
        " (40, 40, 'x', 1, 2); perform 1 / 0; exception when division_by_zero then insert into t"
        " values (41, 41, 'y', 3); end; alter table t add e int default 5; begin alter table t"
        " add c text; exception when duplicate_column then null; end; end $$",
        "insert into t (id, c) values (42, 4)",
        CHANGE,
    ),
    case(
        "procedure_that_commits",
        T,
        "create procedure p() language plpgsql as $$ begin for i in 1..3 loop execute format("
        "'alter table t add p%s int default %s', i, i); insert into t (id, a) values (50 + i, i);"
        " if i = 2 then rollback; else commit; end if; end loop; end $$",
        "call p()",
        CHANGE,
    ),
    case(
        "several_statements_in_one_message",
        T,
        "alter table t add c int default 1; insert into t values (60, 1, 'x', 2); alter table t"
        " rename c to d; create table u as select * from t; alter table u drop b; drop table if"
        " exists nothing; create index on u (a); /* ; */ alter table u add e text default ';--'",
        "begin; alter table t add f int; commit; alter table t add g int; begin; alter table t"
        " drop f; commit",
        CHANGE,
    ),
    case(
        "rewritten_among_changes",
        T,
        "begin; insert into t values (70, 70, 'in'); update t set a = 5 where id = 1; alter table t"
        " alter a type bigint using a * 1000000000::bigint; update t set a = a + 1 where id = 70;"
        " delete from t where id = 3; alter table t alter b type varchar(30); insert into t"
        " values (71, 71, 'out'); commit",
        "begin; truncate t; insert into t values (1, 1, '1'); alter table t alter b drop default,"
        " alter b type int using b::int * 2; insert into t values (2, 2, 5); commit",
        CHANGE,
    ),
    # Columns.
    case(
        "many_commands_in_one_alter",
        T,
        "alter table t add c int not null default 5, add d text default 'd' check (d <> 'x'),"
        " alter a type text using a || '-' || b, alter b drop default, alter b set not null, drop"
        " constraint t_pkey, add constraint k primary key (id, b), add unique (c, id)",
        "insert into t values (80, 'x', 'y')",
        "update t set a = 'z' where id = 2",
        "alter table t alter b type int using length(b), drop column d, add d int default 3,"
        " alter c drop not null, alter c set default 7, add constraint ck check (c > 0) not valid",
        "insert into t (id, b) values (81, 4)",
        'alter table t validate constraint ck, alter a type text collate "C"',
    ),
    case(
        "using_other_columns",
        "create table t (id int primary key, a int, b text, j jsonb, at timestamptz);"
        " insert into t select g, g, 'n' || g, jsonb_build_object('k', g), timestamptz 'epoch' +"
        " g * interval '1 day' from generate_series(1, 5) g",
        "alter table t alter b type jsonb using jsonb_build_object('b', b, 'a', a)",
        "alter table t alter j type int using (j->>'k')::int * a",
        "set timezone = 'Asia/Tokyo'; alter table t alter at type date using at::date",
        "alter table t alter a type int4range using int4range(a, a + 1)",
        "insert into t values (90, '[1,5)', '{}', 3, '2020-02-29')",
        "update t set j = j + 1 where id = 2",
    ),
    case(
        "serial_becomes_identity",
        "create table t (id serial primary key, a int); insert into t (a) values (1), (2)",
        "begin; alter table t alter id drop default; drop sequence t_id_seq; alter table t alter id"
        " add generated by default as identity; select setval('t_id_seq', 10); commit",
        "insert into t (a) values (3)",
        "alter table t alter id set generated always, alter id type bigint",
        "insert into t (a) values (4)",
        "alter table t alter id set start 100 restart, alter id set increment 5",
        "insert into t (a) values (5)",
        "alter table t alter id drop identity; create sequence t_id_seq owned by t.id; alter table"
        " t alter id set default nextval('t_id_seq')",
        "insert into t values (200, 6)",
        CHANGE,
    ),
    case(
        "generated_columns",
        f"{T} alter table t add g int generated always as (a * 2) stored",
        "alter table t alter g drop expression",
        "insert into t (id, a, g) values (100, 1, 55)",
        "alter table t drop g, add g text generated always as (b || '!') stored",
        "alter table t drop g; alter table t add h int generated always as (length(b) + a) stored,"
        " add unique (h, id)",
        "insert into t (id, a) values (101, 2)",
        "alter table t rename a to n; alter table t rename n to a",
        CHANGE,
    ),
    case(
        "toasted_values_stay",
        "create table t (id int primary key, a int, b text); alter table t alter b set storage"
        " external; insert into t select g, g, repeat(md5(g::text), 300) from"
        " generate_series(1, 3) g",
        CHANGE,
        "alter table t rename b to big; update t set a = 3 where id = 1",
        "alter table t add c int default 4; update t set c = 5 where id = 3",
        "begin; update t set a = 9 where id = 1; alter table t alter c type bigint; update t set"
        " a = 10 where id = 1; alter table t drop c; update t set a = 11 where id = 1; commit",
        "alter table t alter big set storage main; update t set id = 33 where id = 3",
    ),
    # Types.
    case(
        "enum_everywhere",
        "create type e as enum ('a', 'b'); create table t (id int primary key, a int, e e default"
        " 'a' check (e <> 'b'), l e[] default '{a}'); insert into t values (1, 1), (2, 2);"
        " create table p (id int, e e) partition by list (e); create table p_a partition of p for"
        " values in ('a'); insert into p values (1, 'a')",
        "alter type e add value if not exists 'c' after 'a'",
        "alter type e add value if not exists 'c'",
        "insert into t values (7, 7, 'c', '{c,a}')",
        "alter type e rename value 'a' to 'A'",
        "alter type e rename value 'b' to 'it''s'",
        "create table p_c partition of p for values in ('c', 'it''s')",
        "insert into p values (2, 'A'), (3, 'it''s')",
        "begin; create type e2 as enum ('x', 'y'); create table u (e e2"
        " default 'y'); insert into u values ('y'), (default); commit",
        CHANGE,
    ),
    case(
        "domains_of_domains",
        "create domain d1 as int check (value > 0); create domain d2 as d1 check (value < 1000);"
        " create table t (id int primary key, a d2, c int[]); insert into t values (1, 1, '{1,2}')",
        "alter domain d1 drop constraint d1_check; alter domain d1 add check (value > -5)",
        "insert into t values (2, -3, '{-4}')",
        "alter table t alter a type d1; alter table t add f d2 default 5",
        "create domain d3 as text collate \"C\" default 'dd' not null check (value ~ '^d')",
        "alter table t add g d3",
        "alter domain d2 set default 7; insert into t (id, a) values (3, 1)",
        "alter domain d3 rename to d4; alter table t alter g type text; drop domain d4",
        CHANGE,
    ),
    case(
        "row_types_of_tables",
        f"{T} create table u (id int primary key, r t, l t[]); insert into u values (1,"
        " '(1,2,x)', array['(3,4,y)'::t])",
        "alter table t add c int",
        "insert into u values (2, '(1,2,x,9)', '{}')",
        "alter table t rename b to bb",
        "insert into u select 3, t, array[t] from t where id = 1",
        "create table v as select t as r, id from t",
        "alter table t drop c",
        "update u set id = 4 where id = 2",
        CHANGE,
    ),
    case(
        "materialized_view_takes_the_name",
        T,
        "create materialized view v as select * from t",
        "begin; drop materialized view v; create table v as select * from t; alter table v add"
        " primary key (id); commit",
        "update v set a = 5 where id = 1; update t set a = 6 where id = 1",
        "begin; insert into v values (8, 8); alter table v rename to v_old; alter table t rename"
        " to t_old; create materialized view v as select * from t_old; create materialized view t"
        " as select * from v_old; commit",
        "insert into t_old values (9, 9)",
        "insert into v_old values (9, 9)",
        "refresh materialized view t",
    ),
    # Inheritance and partitions.
    case(
        "inheritance_in_a_diamond",
        "create table a (id int primary key, x int default 1); create table b (y int) inherits (a);"
        " create table c (z int) inherits (a); create table d (w int) inherits (b, c);"
        " insert into d values (1, 2, 3, 4, 5); insert into b values (2, 3, 4)",
        "alter table a add n int default 6",
        "alter table only a alter x set default 9",
        "insert into d (id) values (3); insert into a (id) values (4)",
        "alter table d no inherit b; alter table a drop n",
        "insert into d (id) values (5)",
        "alter table only a drop x",
        "insert into b (id) values (6)",
        "alter table a add constraint pos check (id > 0), add constraint own check (id < 999) no"
        " inherit",
        "alter table b rename y to yy; alter table a rename id to key",
        "insert into c (key) values (7)",
    ),
    case(
        "partitions_come_and_go",
        "create table t (id int, a int, b text default 'b') partition by range (a);"
        " create table t_1 partition of t for values from (0) to (10);"
        " create table x (junk int, b text, a int, id int); alter table x drop junk;"
        " insert into x values ('x', 15, 1); insert into t values (2, 5)",
        "alter table t attach partition x for values from (10) to (20)",
        "alter table t add c int default 8, alter b type varchar(20)",
        "insert into t values (3, 16)",
        "alter table t detach partition x concurrently",
        "alter table x drop constraint x_a_check",
        "alter table x add only_here int default 2",
        "insert into x (id, a) values (4, 17)",
        "alter table x drop only_here",
        "alter table t attach partition x for values from (10) to (30)",
        "create table t_d partition of t default",
        "insert into t values (5, 99), (6, 25)",
        "begin; alter table t detach partition t_d; create table t_2 partition of t for values"
        " from (30) to (200); insert into t select * from t_d; drop table t_d; commit",
        "alter table t add primary key (id, a)",
        "update t set a = 150 where id = 2",
        "update x set b = 'x' where b is null",
        "alter table x alter b set default 'other', alter b set not null",
        "insert into x (id, a) values (7, 12)",
    ),
    case(
        "partition_whose_check_implies_its_bound",
        "create table t (id int, a int not null, b text) partition by range (a);"
        " create table x (id int, a int not null, b text, constraint own check (a >= 10 and a"
        " < 20)); alter table t attach partition x for values from (10) to (20);"
        " create table y partition of t for values from (20) to (30); insert into t values (1, 15)",
        "alter table t detach partition x concurrently",
        "alter table x drop constraint own",
        "insert into x values (2, 99)",
        "alter table x alter b type varchar(9) using left(md5(random()::text), 9)",
        "begin; create table z (id int); alter table t detach partition y; insert into y values"
        " (3, 77); insert into z values (4); commit",
        "do $$ begin alter table y rename to y_old; alter table t add c int; insert into y_old"
        " values (5, 78); end $$",
    ),
    case(
        "partitions_of_expressions",
        "",
        "create table t (id int, a date, n text) partition by range ((extract(year from a)))",
        "create table t_1 partition of t for values from (2000 + 10) to (2000 + 20)",
        "create table h (id int, n text) partition by hash (lower(n), id)",
        "do $$ begin for i in 0..3 loop execute format('create table h_%s partition of h for"
        " values with (modulus 4, remainder %s)', i, i); end loop; end $$",
        "insert into t values (1, '2012-02-03', 'x'); insert into h select g, 'N' || g from"
        " generate_series(1, 20) g",
        "alter table h add c int default 3",
        "alter table h alter c type text",
    ),
    # Functions, triggers and scripts that run DDL.
    case(
        "event_trigger_before_ours",
        _EVENT_TRIGGER.format(name="aaa_added", schema="event_trigger_before_ours"),
        "create table t (id int primary key, a int)",
        "insert into t values (1, 1, 1), (2, 2, 2)",
        "create table u (id int primary key)",
        "alter table t rename aaa_added to mine",
        "drop event trigger aaa_added",
        MORE,
        CHANGE,
    ),
    case(
        "event_trigger_after_ours",
        _EVENT_TRIGGER.format(name="zzz_added", schema="event_trigger_after_ours"),
        "begin; create table t (id int primary key, a int); insert into t values (1, 1, 1); commit",
        "insert into t values (2, 2, 2)",
        "drop event trigger zzz_added",
        MORE,
        CHANGE,
    ),
    case(
        "sql_functions_with_ddl",
        T,
        "create function two() returns void language sql as $$ alter table t add c int default 1;"
        " create table made (id int primary key); $$",
        "create function one() returns int language plpgsql as $$ begin perform two(); execute"
        " 'alter table t add d int default 2; insert into t (id, a) values (110, 1)'; return 1;"
        " end $$",
        "select one()",
        CHANGE,
    ),
    case(
        "trigger_that_makes_partitions",
        "create table t (id int, a int) partition by list (a); create table q (a int);"
        " create function mk() returns trigger language plpgsql as $$ begin execute format("
        "'create table if not exists t_%s partition of t for values in (%s)', new.a, new.a);"
        " execute format('insert into t values (1, %s)', new.a); return new; end $$;"
        " create trigger mk before insert on q for each row execute function mk()",
        "insert into q values (1), (2), (1), (3)",
        "insert into q select g from generate_series(3, 6) g",
    ),
    case(
        "extension_scripts",
        T,
        "create extension if not exists pgcrypto with schema public",
        "alter table t add c int default 3",
        "create extension if not exists tablefunc; drop extension tablefunc",
        MORE,
        "drop extension if exists pgcrypto cascade",
        CHANGE,
    ),
    # Temporary tables.
    case(
        "temporary_tables_hide_others",
        T,
        "create temporary table t (id int, other text); alter table t add more int;"
        " insert into t values (1, 'x', 2)",
        "alter table temporary_tables_hide_others.t add c int default 6",
        "create temporary table u as select * from t; alter table u rename to v",
        "drop table t; alter table t add d int",
        "begin; create temporary table w on commit drop as select 1 as id; create table kept as"
        " select * from w; commit",
        "create temporary sequence s; create temporary view z as select 1 as one",
        MORE,
        CHANGE,
    ),
    # Indexes.
    case(
        "indexes_that_fail_concurrently",
        f"{T} insert into t values (8, 1, 'r1')",
        "do $$ begin create unique index u on t (a); exception when unique_violation then null;"
        " end $$",
        "delete from t where id = 8",
        "create unique index concurrently u on t (a)",
        "alter table t add constraint u_key unique using index u",
        "alter table t replica identity using index t_pkey",
        "reindex (concurrently) table t",
        MORE,
        CHANGE,
        "alter table t drop constraint u_key, drop constraint t_pkey, replica identity full",
        "insert into t values (9, 9, 'x'), (9, 9, 'x')",
        "delete from t where id = 9",
    ),
    case(
        "foreign_keys_change_type",
        f"{T} create table c (id int primary key, t_id int references t on update cascade on delete"
        " set null); insert into c values (1, 1), (2, 2)",
        "begin; alter table t alter id type bigint; alter table c alter t_id type bigint; insert"
        " into t values (5000000000, 1); insert into c values (3, 5000000000); commit",
        "update t set id = 77 where id = 1",
        "delete from t where id = 2",
        "alter table c drop constraint c_t_id_fkey, add foreign key (t_id) references t (id)",
        MORE,
    ),
    case(
        "foreign_key_to_an_index_that_was_skipped",
        f"{T} create function cmp(int, int) returns int language sql immutable as"
        " 'select btint4cmp($1, $2)'; create operator class own for type int using btree as"
        " operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >,"
        " function 1 cmp(int, int); create unique index i on t (a own);"
        " create table before (id int primary key, a int references t (a));"
        " insert into before values (1, 1)",
        "create table u (id int primary key, x int); create unique index j on u (x own)",
        "insert into u values (1, 1), (2, 2)",
        "create table c (id int primary key, x int references u (x))",
        "insert into c values (1, 1)",
        "create table d (id int primary key, x int)",
        "alter table d add foreign key (x) references u (x) on delete cascade",
        "alter table before add more int default 2",
        "insert into d values (1, 2)",
        "alter table d add more int; alter table d rename constraint d_x_fkey to fk",
        "alter table u add unique (x)",
        "create table g (id int primary key, x int references u (x))",
        "insert into g values (1, 2)",
        CHANGE,
    ),
    # Names.
    case(
        "names_of_63_bytes",
        f'create table "{_LONG}" (id serial primary key, "{_LONG}" int unique, b text);'
        f' insert into "{_LONG}" ("{_LONG}") values (1), (2)',
        f'alter table "{_LONG}" add unique ("{_LONG}", b), add check ("{_LONG}" > 0), add check'
        f' ("{_LONG}" > -1)',
        f'create unique index on "{_LONG}" (b, "{_LONG}")',
        f'alter table "{_LONG}" add "{"a" * 80}" int default 3',
        f'create table "{"ü" * 40}" (id serial, "{_LONG}" serial, unique (id, "{_LONG}"))',
        f'insert into "{"ü" * 40}" default values',
        f'alter table "{_LONG}" rename to "{"z" * 63}"',
        f'insert into "{"z" * 63}" ("{_LONG}") values (9)',
    ),
    case(
        "names_that_look_like_sql",
        'create table "drop table" ("user" int primary key, "a;b" int, "c--d" text, "e\'f" int);'
        " insert into \"drop table\" values (1, 1, 'x', 1)",
        'alter table "drop table" rename "a;b" to "$1"',
        'alter table "drop table" add "%s %(x)s {0}" int default 3, add "new\nline" int, add'
        " \"back\\slash\" text default '\\'",
        'create table "Table" ("Select" int primary key, "table" text default \'";\');'
        ' create unique index "Index" on "Table" ("table")',
        "insert into \"Table\" values (1, 'a'); insert into \"drop table\" values (2, 2, 'y', 2)",
        'alter table "drop table" rename to "begin; commit"; alter table "Table" add foreign key'
        ' ("Select") references "begin; commit"',
        'update "begin; commit" set "$1" = 5 where "user" = 1',
    ),
    # What goes with something else.
    case(
        "drop_operator_and_cast_cascade",
        f"{T} create function plus(int, int) returns int language sql immutable as 'select $1 +"
        " $2'; create operator @+ (leftarg = int, rightarg = int, function = plus);",
        "alter table t add g int generated always as (a @+ 1) stored, add d int default 1 @+ 2",
        "create table u (id int primary key, a int check (a @+ 1 > 0))",
        "insert into u values (1, 1)",
        "drop operator @+ (int, int) cascade",
        MORE,
        "alter table t add k int; alter table u add k int",
        CHANGE,
    ),
    case(
        "drop_type_cascade_with_all_on_it",
        "create type e as enum ('x', 'y'); create domain d as e; create function f(e) returns int"
        " language sql immutable as 'select 1'; create table t (id int primary key, a int, e e"
        " default 'x', g int generated always as (length(case when a > 1 then 'x' else '' end))"
        " stored, unique (a, e)); create index on t (e); insert into t values (1, 1), (2, 2);"
        " create table p (id int, e e, n d) ; insert into p values (1, 'x', 'y')",
        "alter table t add h int generated always as (case e when 'x' then 1 else 2 end) stored",
        "drop type e cascade",
        MORE,
        CHANGE,
        "alter table p add k int; insert into p values (2, 3)",
    ),
    case(
        "drop_owned_and_sequences",
        f"{T} create sequence s; alter table t alter a set default nextval('s');"
        " create table n (id int default nextval('s') primary key)",
        "drop sequence s cascade",
        "insert into t (id) values (120); insert into n values (1)",
        "create sequence s2; alter table n alter id set default nextval('s2'); alter sequence s2"
        " owned by t.b",
        "alter table t drop b cascade",
        "insert into n values (2)",
        CHANGE,
    ),
    case(
        "made_and_filled_in_odd_ways",
        T,
        "prepare q as select id, a from t; create table u as execute q",
        "do $$ begin create table v as select g as id, g::text as n from generate_series(1, 4) g;"
        " alter table v add primary key (id); update v set n = 'x' where id = 2; end $$",
        "begin; create table w (id, twice) as select id, a * 2 from t; insert into w values (9, 9);"
        " savepoint s; create table lost as select 1; rollback to s; alter table w add c int"
        " default 1; commit",
        "create unlogged table un as select 1 as id; alter table un set logged",
        "with d as (delete from v returning *) select * from d; select * into x from t where false",
        "create table y as select random() as r, now() as at, row(1, 'x')::text as n,"
        " array[1, null] as l",
        "create table z (a int, like t including defaults, b2 text)".replace("(a int, ", "("),
        "insert into z (id) values (5)",
    ),
    case(
        "nothing_happens",
        T,
        "create table if not exists t (other int); alter table if exists nothing add x int;"
        " drop table if exists nothing, neither; alter table t add column if not exists a text",
        "alter table t drop column if exists nothing, drop constraint if exists nothing",
        "create index if not exists t_pkey on t (a); create schema if not exists nothing_happens",
        "create sequence if not exists s; create sequence if not exists s",
        "drop table if exists neither, u, nothing cascade",
        MORE,
        CHANGE,
    ),
    case(
        "rows_that_were_not_sent",
        "create domain small as int; create table k (id int primary key, n int unique);"
        " insert into k values (1, 1); create table t (id int, a int, s small);"
        " insert into t select g, 7, 70 from generate_series(1, 3) g; create table u (like t);"
        " insert into u select * from t; create table v (like t); insert into v select * from t;"
        " create table f (id int, k int); insert into f values (1, 99);"
        " create table p (id int, a int) partition by list (a); create table p_rest partition of p"
        " default; insert into p values (1, 7), (2, 8)",
        "update t set a = id, s = 1; update u set s = 1; update v set a = id; update f set k = 1;"
        " update p set a = 9 where a = 7",
        "alter table t add primary key (a); insert into t values (4, 4, 4)",
        "alter table u add check (s < 10), add more int default 5; insert into u values (4, 4, 4)",
        "update v set s = 2 where id = 1; delete from v where id > 1; alter domain small add check"
        " (value < 10); insert into v values (4, 4, 4)",
        "alter table f add foreign key (k) references k (n); insert into f values (2, 1)",
        "create table p_7 partition of p for values in (7); insert into p values (3, 7), (4, 4)",
        "update t set s = 3 where a = 4",
    ),
    case(
        "prepared_and_committed_later",
        f"{T} create table u (id int primary key)",
        "begin; alter table t add c int default 4; insert into t values (11, 11, 'x', 5); create"
        " table made (id int primary key); insert into made values (1); prepare transaction"
        " 'reach_1'",
        "insert into u values (1); alter table u add a int default 3",
        "begin; alter table u add b int; truncate u; insert into u values (2, 2, 2); prepare"
        " transaction 'reach_2'",
        "rollback prepared 'reach_2'",
        "create table other (id int); insert into other values (1)",
        "commit prepared 'reach_1'",
        "alter table t drop a; insert into made values (2); insert into u values (3, 3)",
    ),
    case(
        "names_of_tables_as_values",
        f"{T} create schema reach_b; create table reach_b.t (id int primary key);"
        " create sequence reach_b.s",
        "alter table t add r text default ('reach_b.t'::regclass)::text",
        "alter table t add n oid default 'reach_b.s'::regclass",
        "alter table t alter n set default 0, alter r set default 'reach_b.t'",
        "alter table t drop n; insert into t (id) values (5)",
        "create table u (id int primary key, n bigint default nextval('reach_b.s'), c boolean"
        " default ('reach_b.t'::regclass is not null)); insert into u values (1, 1)",
        "alter table u add check (id <> 'reach_b.t'::regclass::oid::bigint)",
        "alter table reach_b.t rename to t2; alter table u drop c; insert into u values (2, 2)",
        CHANGE,
    ),
)
