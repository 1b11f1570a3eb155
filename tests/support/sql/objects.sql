-- Every kind of object that a copy carries, and those that it names and skips.
create extension hstore;
create extension citext;
create extension btree_gist;
create schema shop;
create schema "Odd.Schema ""q""";
create schema kit;

create type shop.mood as enum ('sad', 'it''s ok', 'HAPPY "q"');
create type shop.money_amount as (amount numeric(20,4), currency char(3));
create type kit.span as range (subtype = timestamptz, multirange_type_name = kit.spans);
create type kit.only_for_function as enum ('x');
create type kit.unused as enum ('never');
create collation shop.german (provider = icu, locale = 'de-u-kn-true', deterministic = false);
create function kit.is_positive(n numeric) returns boolean language sql immutable
    as 'select n > 0';
create function kit.is_positive(n text) returns boolean language sql immutable
    as 'select length(n) > 0';
create domain shop.positive as numeric default 1 constraint above_zero check (kit.is_positive(value));
create domain shop.email as public.citext check (value ~ '@') not null;
create sequence shop.loose_number start 1000 increment 5;
create function shop.next_code(prefix text default 'C') returns text language plpgsql volatile as $$
begin
    -- Says "select" and ; and $1 in a comment.
    return prefix || nextval('shop.loose_number'::regclass)::text;
end $$;
create function shop.twice(n integer) returns integer language sql immutable
    begin atomic; select n * 2; end;
create function shop.searching(n integer) returns integer language sql immutable
    set search_path = shop, public as 'select n + 1';
create function shop.unused(n kit.only_for_function) returns text language sql as 'select 1::text';
create operator shop.=== (leftarg = integer, rightarg = integer, procedure = int4eq);
comment on operator shop.===(integer, integer) is 'the same';

create table shop.everything (
    id              bigint generated always as identity,
    small           smallint default 7,
    whole           integer default shop.twice(21),
    number          numeric(12,3) default 1.500,
    exact           numeric,
    real_four       real,
    real_eight      double precision,
    truth           boolean default true,
    words           text collate "C" default 'a ''quoted'' \ text; shop.everything',
    padded          char(5),
    limited         varchar(20) collate shop.german,
    bytes           bytea default '\x00ff',
    day             date default current_date,
    moment          timestamptz default now(),
    plain_moment    timestamp(3),
    clock           time,
    clock_zone      timetz,
    span            interval default '1 day 02:03:04',
    uid             uuid default gen_random_uuid(),
    doc             json,
    docb            jsonb default '{"k": [1, 2]}',
    markup          xml,
    net             inet,
    block           cidr,
    mac             macaddr,
    spot            point,
    area            polygon,
    flags           bit varying(12) default B'101',
    search          tsvector,
    query           tsquery,
    feeling         shop.mood default 'it''s ok'::shop.mood,
    feelings        shop.mood[] default array['sad', 'it''s ok']::shop.mood[],
    price           shop.money_amount,
    prices          shop.money_amount[],
    sure            shop.positive,
    mail            shop.email default 'a@b',
    ints            integer[],
    grid            integer[][],
    ages            int4range,
    open_hours      kit.span,
    open_days       kit.spans,
    settings        public.hstore default 'a=>1'::public.hstore,
    nick            public.citext,
    code            text default shop.next_code('X'),
    cash            money,
    kind            regclass default 'shop.loose_number'::regclass,
    position_in_log pg_lsn,
    xid             xid8,
    doubled         integer generated always as (shop.twice(whole)) stored,
    more            integer generated always as (shop.searching(small::integer)) stored,
    constraint everything_pkey primary key (id),
    constraint everything_code_key unique (code) include (small),
    constraint everything_words_check check (length(words) < 1000000 and feeling <> 'sad'::shop.mood or true)
);
create unique index everything_expression on shop.everything (lower(words), (shop.twice(whole)) desc nulls last)
    where truth and feeling operator(pg_catalog.=) 'sad'::shop.mood;
create index everything_plain on shop.everything using gin (ints) with (fastupdate = off);
create index everything_ops on shop.everything (limited collate shop.german, words collate "C" text_pattern_ops);
create statistics shop.everything_stats (ndistinct) on small, whole from shop.everything;
comment on table shop.everything is 'all; the ''types''';
comment on column shop.everything.feeling is 'shop.mood it is';
comment on constraint everything_pkey on shop.everything is 'the key';
comment on index shop.everything_plain is 'left out with its index';
comment on type shop.mood is 'moods';
comment on domain shop.positive is 'above zero';
comment on constraint above_zero on domain shop.positive is 'not even zero';
comment on statistics shop.everything_stats is 'small and whole';
alter statistics shop.everything_stats set statistics 50;
comment on function kit.is_positive(numeric) is 'above zero';
comment on schema shop is 'the shop';

create domain shop.short as varchar(5);
create domain shop.shorter as shop.short;
create table shop.plain (
    id integer primary key, small smallint, big bigint, f4 real, f8 double precision, n numeric,
    o oid, l pg_lsn, b boolean, t text, v varchar(5), c char(5), d shop.shorter, x bytea, u uuid,
    j json, jb jsonb, day date, clock time, clock_zone timetz, moment timestamp,
    moment_zone timestamptz(3), span interval, net inet, block cidr, mac macaddr, m shop.mood,
    texts text[], numbers numeric[], moments timestamptz[]);
create table shop.serials (id serial primary key, big bigserial, n integer default nextval('shop.loose_number'),
    check (n operator(shop.===) n));
create table shop.empty_columns ();
create table shop.nothing_but_generated (twice integer generated always as (2) stored);
alter table shop.empty_columns replica identity full;
alter table shop.nothing_but_generated replica identity full;
create table shop.dropped (a integer, b text, c integer primary key);
alter table shop.dropped drop column b;
alter table shop.dropped add column "d;--" text default '$$;';
create table shop.no_key (a integer, b text);
alter table shop.no_key replica identity full;
create table shop.by_index (a integer not null, b integer not null, c text);
create unique index by_index_b on shop.by_index (b);
alter table shop.by_index replica identity using index by_index_b;
create table shop.rooms (room integer, during tstzrange,
    constraint rooms_free exclude using gist (room with =, during with &&),
    primary key (room, during));
create table shop.late (id integer primary key deferrable initially deferred, n integer);
alter table shop.late replica identity full;
alter table shop.late add constraint late_check check (n > 0) not valid;

create table shop.parent (id integer primary key, name text, check (id > 0));
create table shop.child (extra text default 'x', primary key (id)) inherits (shop.parent);
create table shop.grandchild (more text, primary key (id)) inherits (shop.child);

create table shop.events (id bigint not null, at date not null, kind shop.mood, body text,
    primary key (id, at)) partition by range (at);
create table shop.events_2025 partition of shop.events for values from ('2025-01-01') to ('2026-01-01');
create table kit.events_2026 partition of shop.events for values from ('2026-01-01') to ('2027-01-01')
    partition by hash (id);
create table kit."Events 2026 even" partition of kit.events_2026
    for values with (modulus 2, remainder 0);
create table kit.events_2026_rest partition of kit.events_2026
    for values with (modulus 2, remainder 1);
create unique index events_body on shop.events (body, at, id);

create table "Odd.Schema ""q"""."Table with.dots and ""quotes""" (
    "select" integer primary key, "Ü ''x''" text, "a.b" shop.mood, "$1" integer default 5);
create table "Odd.Schema ""q""".refers (
    id integer primary key,
    everything bigint references shop.everything,
    odd integer references "Odd.Schema ""q"""."Table with.dots and ""quotes""" ("select") on delete cascade,
    event_id bigint, event_at date,
    self integer references "Odd.Schema ""q""".refers deferrable initially deferred,
    constraint refers_events foreign key (event_id, event_at) references shop.events (id, at));

-- What a copy skips, by name.
create function shop.touch() returns trigger language plpgsql as 'begin return new; end';
create trigger touch before update on shop.everything for each row execute function shop.touch();
create policy mine on shop.no_key using (true);
create rule quiet as on delete to shop.by_index where false do instead nothing;
create view shop.summary as select count(*) from shop.everything;
create materialized view shop.stored_summary as select count(*) from shop.everything;
create unlogged table shop.scratch (id integer primary key);
grant select on shop.everything to public;
create aggregate shop.total(integer) (sfunc = int4pl, stype = integer);
