-- The tables of the capture, and those of an older version brought up to date.
--
-- The log has no sequence, which would be the last one drawn from in a user's session, and no unique
-- index, behind which sessions with DDL would wait for one another.

create table if not exists pgrepl.ddl_log (
    -- Where the WAL stood, in bytes: it grows from row to row of a transaction. The last three bits,
    -- which an LSN does not use, tell transactions apart that asked at the same moment.
    id         bigint      not null default
               pg_catalog.mod(pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
                              4611686018427387904)::bigint
               + pg_catalog.mod(pg_catalog.pg_current_xact_id()::text::numeric, 8)::bigint,
    -- start: before a command that makes a table and fills it, or runs an extension's script.
    -- rewrite, drop: what the command does, before its end. end: the command is done.
    kind       text        not null check (kind in ('start', 'rewrite', 'drop', 'end')),
    tag        text        not null,
    xid        text        not null,
    -- When the client's message arrived: the same for all commands of one message.
    stmt_at    timestamptz not null,
    -- The client's message, which may hold many statements, and, where the command came from inside
    -- a function or DO, PostgreSQL's account of who called whom.
    query      text,
    context    text,
    -- Of SQL functions, whose account holds no statement: the bodies that the name may stand for.
    bodies     text,
    -- Which of the statements in the text it is, where there are several.
    ordinal    bigint,
    path       text        not null,
    invoker    text        not null,
    -- Extension to schema.
    extensions text        not null,
    objects    text,
    dropped    text,
    rewritten  text,
    -- The structure of each table that the command touched, after it.
    tables     text,
    -- The settings that it ran under, as far as they change what a statement means, and the locale
    -- of the database.
    settings   text,
    locale     text,
    -- What the database has of its own under names of PostgreSQL's, where rows were computed.
    homonyms   text
);

create table if not exists pgrepl.capture (
    is_only_row  boolean     primary key default true check (is_only_row),
    installed_at timestamptz not null,
    -- Transactions below it may have run DDL before the triggers were there. The highest of all:
    -- they are not there, or nobody has looked since.
    horizon      xid8        not null,
    -- Set once the last of them is over: from here on every DDL is captured.
    complete_lsn pg_lsn
);

do $block$
declare
    v_timeout text := pg_catalog.current_setting('lock_timeout');
begin
    if not exists (select from pg_catalog.pg_attribute
                    where attrelid = 'pgrepl.capture'::pg_catalog.regclass and attname = 'off_lsn')
    then
        -- When, and where in the WAL, it was last switched off.
        alter table pgrepl.capture add off_at timestamptz, add off_lsn pg_lsn;
    end if;
    if not exists (select from pg_catalog.pg_attribute
                    where attrelid = 'pgrepl.ddl_log'::pg_catalog.regclass and attname = 'homonyms')
    then
        -- Whoever has a row of the old triggers in an open transaction ends it first: the new
        -- triggers must not take over in the middle of a command. All others with DDL wait behind
        -- this, so it does not wait for long.
        perform pg_catalog.set_config('lock_timeout', '5s', true);
        lock table pgrepl.ddl_log in access exclusive mode;
        perform pg_catalog.set_config('lock_timeout', v_timeout, true);
        alter table pgrepl.ddl_log
            add if not exists settings text, add if not exists locale text, add homonyms text;
    end if;
    if exists (select from pg_catalog.pg_attribute
                where attrelid = 'pgrepl.ddl_log'::pg_catalog.regclass and attname = 'id'
                  and attidentity <> '')
    then
        alter table pgrepl.ddl_log drop constraint ddl_log_pkey, alter id drop identity;
        alter table pgrepl.ddl_log alter id set default
            pg_catalog.mod(pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
                           4611686018427387904)::bigint
            + pg_catalog.mod(pg_catalog.pg_current_xact_id()::text::numeric, 8)::bigint;
        drop index if exists pgrepl.ddl_log_xid;
    end if;
    if exists (select from pg_catalog.pg_class
                where oid = 'pgrepl.ddl_log'::pg_catalog.regclass and relreplident <> 'f')
    then
        -- Pruning must not fail because of a publication that is not owned by pgrepl.
        alter table pgrepl.ddl_log replica identity full;
    end if;
end
$block$;

-- Default privileges may have given away more than a look, and at first more than nothing.
do $block$
declare
    v_role text;
    v_is_new boolean := not exists (select from pgrepl.capture);
begin
    for v_role in
        select distinct case when a.grantee = 0 then 'public'
                             else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) end
          from (select c.relacl, c.relowner
                  from pg_catalog.pg_class c
                 where c.oid in ('pgrepl.ddl_log'::pg_catalog.regclass,
                                 'pgrepl.capture'::pg_catalog.regclass)
                 union all
                select n.nspacl, n.nspowner
                  from pg_catalog.pg_namespace n
                 where n.nspname = 'pgrepl') o (acl, owner)
          cross join lateral pg_catalog.aclexplode(o.acl) a
         where a.grantee <> o.owner
    loop
        execute 'revoke insert, update, delete, truncate, references, trigger on pgrepl.ddl_log'
                ' from ' || v_role;
        execute 'revoke insert, delete, truncate, references, trigger on pgrepl.capture'
                ' from ' || v_role;
        execute 'revoke create on schema pgrepl from ' || v_role;
        if v_is_new then
            execute 'revoke all on pgrepl.ddl_log, pgrepl.capture from ' || v_role;
        end if;
    end loop;
end
$block$;

revoke all on schema pgrepl from public;
revoke all on pgrepl.ddl_log, pgrepl.capture from public;

insert into pgrepl.capture (installed_at, horizon)
values (pg_catalog.now(), '18446744073709551615')
on conflict (is_only_row) do update set installed_at = excluded.installed_at;
