"""DDL that nobody had in mind: settings of functions, chains of names, odd types, rewrites."""

from __future__ import annotations

from tests.support.ddl.reach_case import CHANGE, MORE, T, case

_AT = (
    "create table t (id int primary key, at timestamptz, a int);"
    " insert into t select g, '2020-06-01 12:00+00'::timestamptz + g * interval '1 day', g"
    " from generate_series(1, 3) g;"
)

UNFORESEEN_SCENARIOS = (
    # What a statement means.
    case(
        "settings_of_a_function",
        _AT,
        "create function retype() returns void language plpgsql set timezone = 'Asia/Tokyo' as"
        " $$ begin alter table t alter at type text using at::text; end $$",
        "set timezone = 'America/New_York'; select retype()",
        MORE,
    ),
    case(
        "settings_that_change_in_a_transaction",
        _AT,
        "begin; set local datestyle = 'German'; alter table t add d date default '01.02.2020';"
        " set local datestyle = 'ISO, MDY'; alter table t add e date default '01/02/2020';"
        " set local datestyle = 'ISO, DMY'; alter table t add f date default '01/02/2020';"
        " set local timezone = 'Asia/Kolkata'; alter table t add g timestamptz default"
        " '2020-01-01 00:00', add h timestamptz[] default '{2020-01-01 00:00}',"
        " add i tstzrange default '[2020-01-01 00:00,]'; commit",
        MORE,
        "set intervalstyle = sql_standard; alter table t add j interval default '-1-2 -3 4:05:06'",
        "set array_nulls = off; alter table t add k text[] default '{NULL,x}'",
        "set timezone = 'Asia/Kolkata'; set datestyle = 'SQL, DMY'; alter table t add l text"
        " default '2020-01-01 00:00'::timestamptz::text",
        "insert into t (id) values (20)",
        "set timezone = 'Australia/Eucla'; alter table t add check (at > '2000-01-01 00:00'),"
        " alter a set default extract(hour from '2020-01-01 00:00'::timestamptz)",
        "insert into t (id, at) values (21, '2020-01-01')",
        "set timezone = 'Australia/Eucla'; create unique index u on t (at) where"
        " at < '2020-06-02 12:00'::timestamptz",
        CHANGE,
    ),
    case(
        "defaults_of_the_session",
        T,
        "alter table t add u name default current_user, add v text default"
        " current_setting('server_version'), add w int default pg_backend_pid(), add x xid8 default"
        " pg_current_xact_id(), add y timestamptz default statement_timestamp()",
        MORE,
        "alter table t add z text default session_user || '!' || current_date",
        CHANGE,
    ),
    case(
        "domains_within_types",
        T,
        "create domain d1 as float default random(); create domain d2 as d1; create domain d3 as d2"
        " check (value >= 0); create type c as (x d3, y int)",
        "alter table t add e d3, add f d3[], add g c",
        MORE,
        "alter domain d2 set default 7",
        "alter table t add h d3, add i d2",
        "insert into t (id, f, g) values (20, '{1,2}', '(3,4)')",
        "alter domain d3 rename constraint d3_check to q; alter domain d3 drop constraint q",
        "alter table t add j d3 default 8 not null",
        CHANGE,
    ),
    # Names.
    case(
        "names_in_a_ring",
        "create table a (id int primary key, v text); create table b (id int primary key, v text);"
        " create table c (id int primary key, v text); insert into a values (1, 'a'); insert into"
        " b values (1, 'b'); insert into c values (1, 'c')",
        "begin; update a set v = 'a1'; alter table a rename to tmp; update tmp set v = v || '2';"
        " alter table b rename to a; update a set v = 'b1'; alter table c rename to b; insert into"
        " b values (2, 'was c'); alter table tmp rename to c; insert into c values (2, 'was a');"
        " commit",
        "update a set v = v || '3'; update b set v = v || '3'; update c set v = v || '3'",
        "begin; drop table a; create table a (v text, id bigint primary key); insert into a values"
        " ('new', 1); alter table a rename to d; create table a (id int primary key); insert into a"
        " values (9); alter table d rename column v to w; update d set w = 'newer'; commit",
        "insert into d values ('last', 2); delete from a",
    ),
    case(
        "names_between_schemas_in_one_transaction",
        f"{T} create schema reach_b; create schema reach_c; create table reach_b.t (id int primary"
        " key, a int, b text); insert into reach_b.t values (1, 50)",
        "begin; update t set a = 100 where id = 1; alter table t rename to x; alter table x set"
        " schema reach_c; update reach_c.x set a = 101 where id = 2; alter table reach_b.t set"
        " schema names_between_schemas_in_one_transaction; update t set a = 51; alter table"
        " reach_c.x set schema reach_b; alter table reach_b.x rename to t; insert into reach_b.t"
        " (id) values (30); alter schema reach_b rename to reach_d; insert into reach_d.t (id)"
        " values (31); create schema reach_b; create table reach_b.t (id int primary key); insert"
        " into reach_b.t values (1); commit",
        "insert into reach_d.t (id) values (32); insert into reach_b.t values (2); insert into t"
        " values (2, 2)",
    ),
    case(
        "table_takes_the_name_of_its_parts",
        "create table t (id serial primary key, a int); insert into t (a) values (1), (2)",
        "begin; alter table t rename to x; alter index t_pkey rename to y; alter table x rename to"
        " t_pkey; insert into t_pkey (a) values (3); alter sequence t_id_seq rename to t; alter"
        " table t_pkey rename a to id2; commit",
        "update t_pkey set id2 = 10 where id = 1",
        "begin; alter sequence t rename to z; alter table t_pkey rename to t_id_seq; alter table"
        " t_id_seq rename to t; alter table t rename id2 to a; commit",
        "insert into t (a) values (9)",
    ),
    case(
        "sequences_of_defaults",
        "create sequence s; create table t (id int primary key default nextval('s'), a int);"
        " insert into t (a) values (1)",
        "alter sequence s rename to s2",
        "insert into t (a) values (2)",
        "create schema reach_seq; alter sequence s2 set schema reach_seq",
        "create table u (id int primary key default nextval('reach_seq.s2'), a int)",
        "insert into u (a) values (1); insert into t (a) values (3)",
        "begin; alter table t alter id drop default; drop sequence reach_seq.s2 cascade; create"
        " sequence reach_seq.s2 start 100; alter table t alter id set default"
        " nextval('reach_seq.s2'); insert into t (a) values (4); commit",
        "insert into u values (50, 2)",
        "alter sequence reach_seq.s2 as smallint increment 5 owned by none",
        "insert into t (a) values (5)",
    ),
    # Rows and rewrites.
    case(
        "rewritten_without_ddl",
        f"{T} create index on t (a);",
        "vacuum full t",
        MORE,
        "cluster t using t_pkey",
        CHANGE,
        "alter table t set (fillfactor = 50), set without cluster, alter b set storage plain",
        "vacuum (full, analyze) t",
        "update t set b = repeat('x', 100)",
        "reindex table t",
        "delete from t where id = 1",
    ),
    case(
        "merge_among_ddl",
        f"{T} create table s (id int, a int); insert into s values (1, 100), (50, 500);",
        "begin; alter table t add c int default 3; merge into t using s on t.id = s.id when matched"
        " then update set a = s.a, c = 4 when not matched then insert (id, a) values (s.id, s.a);"
        " alter table t drop c; merge into t using s on t.id = s.id when matched and s.a > 400 then"
        " delete; alter table t add c text default 'z'; commit",
        MORE,
    ),
    case(
        "upserts_among_keys",
        T,
        "begin; alter table t add unique (a); insert into t (id, a) values (9, 1) on conflict (a)"
        " do update set b = 'upserted'; alter table t drop constraint t_a_key; insert into t (id,"
        " a) values (9, 1); alter table t drop constraint t_pkey; alter table t add primary key"
        " (id, a); update t set id = 9 where a = 2; commit",
        "update t set a = 77 where id = 9 and a = 2",
    ),
    case(
        "narrowed_and_rounded",
        "create table t (id int primary key, n numeric, v varchar, c text, ts timestamp, j text,"
        " f float8, bits text); insert into t values (1, 1.2345678, 'abcdef', 'ab', '2020-01-01"
        " 12:34:56.789', '{\"a\": 1,  \"a\": 2}', 1e15, '101')",
        "alter table t alter n type numeric(6, 2), alter v type varchar(3) using v::varchar(3),"
        " alter c type char(5), alter ts type timestamp(0), alter j type jsonb using j::jsonb,"
        " alter f type float4, alter bits type bit(5) using bits::bit(5)",
        "insert into t values (2, 9.999, 'x', 'y', '2021-01-01', '[1]', 1.1, '11111')",
        "alter table t alter n type int, alter ts type date, alter j type json, alter f type"
        ' numeric(20, 3), alter c type varchar, alter v type text collate "C"',
        "update t set n = n + 1",
    ),
    case(
        "identity_comes_and_goes_with_rows",
        "create table t (a int, b int not null); create unique index i on t (b); alter table t"
        " replica identity using index i; insert into t values (1, 1), (2, 2)",
        "begin; update t set a = 10 where b = 1; alter index i rename to j; update t set b = 3"
        " where a = 10; alter table t replica identity full; update t set a = 11 where b = 3; drop"
        " index j; delete from t where b = 2; alter table t add primary key (b); alter table t"
        " replica identity default; update t set a = 12 where b = 3; commit",
        "insert into t values (5, 5); update t set b = 6 where b = 5",
    ),
    case(
        "truncated_in_a_chain",
        "create table p (id serial primary key, x int); create table f (id serial primary key,"
        " p int references p); insert into p (x) values (1), (2); insert into f (p) values (1)",
        "begin; truncate p restart identity cascade; alter table f drop constraint f_p_fkey; insert"
        " into f (p) values (77); truncate only p; alter table p add y int default 5; insert into p"
        " (x) values (3); alter table f rename to g; truncate g; insert into g (p) values (8);"
        " commit",
        "alter table g add foreign key (p) references p not valid",
        "insert into g (p) values (1)",
    ),
    # Constraints.
    case(
        "constraints_of_15",
        "create table t (id int primary key, a int, b int); insert into t values (1, null, 1)",
        "alter table t add constraint n unique nulls not distinct (a)",
        "create table f (id int primary key, x int, y int, foreign key (x) references t on delete"
        " set null (x) deferrable initially deferred)",
        "alter table f alter constraint f_x_fkey not deferrable",
        "insert into t values (2, 2, 2); insert into f values (1, 2)",
        "comment on constraint f_x_fkey on f is 'kept'; comment on constraint n on t is 'n'",
        "alter table t rename constraint n to m; alter index m rename to n",
        "create unique index concurrently u on t (b) include (a) nulls not distinct",
        "update t set a = 5 where id = 2",
    ),
    case(
        "exclusions_of_all_kinds",
        "create table t (id int primary key, r int4range, a int)",
        "alter table t add constraint e exclude using gist (r with &&) where (a > 0) deferrable"
        " initially deferred",
        "insert into t values (1, '[1,5)', 1), (2, '[3,9)', 0)",
        "begin; insert into t values (3, '[2,3)', 2); update t set r = '[5,6)' where id = 3;"
        " commit",
        "alter table t rename constraint e to f; alter table t alter r type int8range using"
        " int8range(lower(r), upper(r))",
        "alter table t drop constraint f, add exclude (a with =)",
        "insert into t values (9, null, 9)",
    ),
    case(
        "checks_that_are_inherited",
        "create table a (id int primary key, x int); create table b (y int, x int); create table c"
        " (z int) inherits (a, b); insert into c values (1, 2, 3, 4)",
        "alter table a add check (x > 0), add check (id > 0) no inherit",
        "alter table b add constraint a_x_check check (x > 0)",
        "alter table a add w int default 5; alter table b add w int default 5",
        "alter table a drop constraint a_x_check",
        "alter table a drop w",
        "alter table c no inherit b",
        "insert into c values (2, 3, 4, 5)",
        "alter table c inherit b",
        "alter table c alter x set default 9, alter x set not null, alter column w drop default",
        "insert into c (id) values (3)",
        "drop table a cascade",
    ),
    # Types.
    case(
        "ranges_with_a_collation",
        T,
        'create type tr as range (subtype = text, collation = "C", multirange_type_name = tmr)',
        "alter table t add r tr default '[a,b]', add m tmr",
        MORE,
        "update t set m = '{[a,b),[c,d)}' where id = 1",
        "alter type tr rename to tr2; alter type tmr rename to tmr2",
        "create table u (r tr2 primary key, m tmr2[])",
        "insert into u values ('[x,y)', '{\"{[a,b)}\"}')",
        "alter table t alter m type text using m::text",
        CHANGE,
    ),
    case(
        "labels_added_and_used",
        "create type e as enum ('a', 'b'); create table t (id int primary key, a int, x e default"
        " 'a'); insert into t values (1, 1, 'b')",
        "alter type e add value 'c' after 'a'",
        "insert into t values (2, 2, 'c')",
        "begin; create type f as enum ('q', 'r'); alter type f rename value 'r' to 's'; create"
        " table u (x f primary key, y e[]); insert into u values ('s', '{a,c}'); commit",
        "alter type e rename value 'a' to 'z'",
        "begin; alter table t alter x drop default; alter type e rename to old; create type e as"
        " enum ('z', 'b', 'c', 'n'); alter table t alter x type e using x::text::e; alter table u"
        " alter y type e[] using y::text::e[]; drop type old; insert into t values (3, 3, 'n');"
        " commit",
        "insert into u values ('q', '{n}')",
    ),
    case(
        "unlogged_sequences_of_identities",
        "create table t (id int generated always as identity primary key, a int);"
        " insert into t (a) values (1)",
        "alter sequence t_id_seq set unlogged",
        "insert into t (a) values (2)",
        "create table u (like t including all); insert into u (a) values (1)",
        "create unlogged table l (id int generated by default as identity primary key, a int);"
        " insert into l (a) values (1), (2)",
        "alter table l set logged",
        "insert into l (a) values (3)",
        "alter table t alter id set generated by default set increment 10 restart 500; alter table"
        " t alter id drop identity; alter table t alter id add generated always as identity"
        " (sequence name own start 900)",
        "insert into t (a) values (3)",
    ),
    case(
        "expressions_of_generated_columns",
        "create table t (id int primary key, a int, g int generated always as (a * 2) stored);"
        " insert into t values (1, 1)",
        "alter table t alter g drop expression",
        "insert into t values (2, 2, 99)",
        "alter table t add h text generated always as (a::text || '!') stored",
        "alter table t rename a to aa",
        "do $$ begin if current_setting('server_version_num')::int >= 170000 then"
        " execute 'alter table t alter h set expression as (aa::text || ''?'')'; end if; end $$",
        "update t set aa = 7 where id = 2",
        "begin; alter table t drop h; alter table t alter aa type bigint; alter table t add h"
        " bigint generated always as (aa + 1) stored; insert into t (id, aa, g) values (3, 3, 3);"
        " commit",
    ),
    # Partitions.
    case(
        "default_partition_is_split",
        "create table t (id int, k text, primary key (id, k)) partition by list (k); create table"
        " t_rest partition of t default; insert into t select g, chr(96 + g) from"
        " generate_series(1, 5) g",
        "begin; alter table t detach partition t_rest; create table t_a partition of t for values"
        " in ('a', 'b'); with moved as (delete from t_rest where k in ('a', 'b') returning *)"
        " insert into t select * from moved; alter table t attach partition t_rest default; commit",
        "update t set k = 'z' where k = 'a'",
        "update t set k = 'b' where k = 'e'",
        "drop table t_rest",
        "alter table t detach partition t_a concurrently",
        "insert into t_a values (70, 'a')",
        "alter table t_a add c int",
        "insert into t_a values (71, 'b', 1)",
    ),
    case(
        "partitions_by_hash_and_loop",
        "create table t (id int, a text, primary key (id)) partition by hash (id)",
        "do $$ begin for i in 0..6 loop execute format('create table t_%s partition of t for values"
        " with (modulus 7, remainder %s)', i, i); end loop; end $$",
        "insert into t select g, g from generate_series(1, 50) g",
        "do $$ begin for i in 0..6 by 2 loop execute format('alter table t detach partition t_%s',"
        " i); execute format('alter table t_%s add extra int default %s', i, i); execute"
        " format('update t_%s set a = a || extra', i); execute format('alter table t_%s drop"
        " extra', i); execute format('alter table t attach partition t_%s for values with"
        " (modulus 7, remainder %s)', i, i); end loop; end $$",
        "create index on t (a); alter table t add unique (id, a); alter table t alter a type"
        " varchar(40)",
        "update t set a = 'end' where id % 5 = 0",
    ),
    # Objects that come along.
    case(
        "schema_made_twice_in_a_transaction",
        "create schema reach_twice; create table reach_twice.t (id int primary key); insert into"
        " reach_twice.t values (1)",
        "begin; insert into reach_twice.t values (2); drop schema reach_twice cascade; create"
        " schema reach_twice create table t (id int primary key, x text) create table u (id int"
        " primary key); insert into reach_twice.t values (1, 'one'); drop schema reach_twice"
        " cascade; create schema reach_twice; create table reach_twice.t (x text, id int primary"
        " key); insert into reach_twice.t values ('two', 1); commit",
        "insert into reach_twice.t values ('three', 3)",
    ),
    case(
        "made_only_if_missing",
        T,
        "create table if not exists t (x text); create table if not exists u (id int primary key)",
        "alter table if exists missing add x int; alter table if exists t add column if not exists"
        " a int, add column if not exists c int default 4; drop table if exists missing, u",
        MORE,
        "alter table t drop column if exists missing, drop constraint if exists missing, drop"
        " column if exists c",
        "create index if not exists i on t (a); create index if not exists i on t (b); drop index"
        " if exists i, missing",
        CHANGE,
    ),
    case(
        "collations_that_do_not_tell_apart",
        "create collation nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
        " create table t (id text collate nd primary key, a int); insert into t values ('Ab', 1)",
        "insert into t values ('aB', 2) on conflict (id) do update set a = 9",
        "update t set id = 'AB' where id = 'ab'",
        "alter table t add b text collate nd unique default null",
        "insert into t values ('x', 1, 'y')",
        "alter collation nd rename to nd2; alter table t alter b type text collate nd2",
        "delete from t where id = 'X'",
    ),
    case(
        "prepared_and_executed",
        T,
        "prepare q as select id, a from t; create table u as execute q; alter table u add primary"
        " key (id); insert into u values (9, 9)",
        "select id, b into v from t; alter table v add primary key (id)",
        "update v set b = 'v' where id = 1",
        "create table w (id, n) with (fillfactor = 70) as select id, a from t with no data",
        "alter table w alter id set not null, add unique (id), replica identity full; insert into w"
        " values (1, 1); update w set n = 2",
    ),
    case(
        "swapped_values_between_ddl",
        "create table t (id int primary key deferrable initially deferred, a int unique"
        " deferrable); alter table t replica identity full; insert into t values (1, 1), (2, 2),"
        " (3, 3)",
        "begin; set constraints all deferred; update t set id = 4 - id; update t set a = 4 - a;"
        " commit",
        "alter table t add b int default 1",
        "update t set id = id + 1",
    ),
)
