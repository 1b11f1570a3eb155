-- Keep the publications of pgrepl such that no statement on this server fails because of them. Run as
-- a superuser; running it again renews it. Removed with the last of the publications.
--
-- The server refuses an UPDATE or DELETE of a table that is published for them and has no replica
-- identity. So a table that loses its identity leaves the publication in the same transaction, and
-- one that gets an identity, or is new, joins. And the server refuses to make a published table
-- unlogged, so that it leaves before that.
--
-- Nobody waits for this, and nothing fails because of it: where another transaction holds a
-- publication, a table that lost its identity gets the whole row as its identity instead, and all
-- others stay as they are; pgrepl doctor and pgrepl status name them. Only a table that is to be
-- unlogged waits for that transaction: the server would refuse it.
--
-- As with captured DDL, a user's transaction reads nothing but the catalogue where it is
-- serializable: a table of ours that two of them read and write would have the server refuse one.
--
-- What a table changed before it joined was not sent. So each that existed before is noted when it
-- joins, and the receiver has it copied again where the copy is older.

-- No unique index: behind it sessions with DDL would wait for one another, or fail.
create table if not exists pgrepl.joined_late (
    relation   oid     not null,
    lsn        pg_lsn  not null,
    xid        xid8    not null,
    -- Whether the transaction may have changed rows itself, unsent.
    is_changed boolean not null
);
create index if not exists joined_late_relation on pgrepl.joined_late (relation);
revoke all on pgrepl.joined_late from public;

do $block$
declare
    v_role name;
begin
    if exists (select from pg_catalog.pg_class
                where oid = 'pgrepl.joined_late'::pg_catalog.regclass and relreplident <> 'f')
    then
        -- Pruning must not fail because of a publication that is not owned by pgrepl.
        alter table pgrepl.joined_late replica identity full;
    end if;
    -- Whoever may receive reads it.
    for v_role in
        select rolname from pg_catalog.pg_roles where rolreplication and not rolsuper
    loop
        execute pg_catalog.format('grant usage on schema pgrepl to %I', v_role);
        execute pg_catalog.format('grant select on pgrepl.joined_late to %I', v_role);
    end loop;
end
$block$;

-- Publications of pgrepl, with the selection of their source: which tables join.
create or replace function pgrepl.publications(
    out whole name, out inserts name, out is_listed boolean, out included json, out excluded json)
returns setof record language sql stable set search_path = pg_catalog, pg_temp as $function$
    select p.pubname, i.pubname, not i.puballtables,
           d.description::json -> 'include', d.description::json -> 'exclude'
      from pg_publication p
      join pg_description d on d.objoid = p.oid and d.classoid = 'pg_publication'::regclass
      join pg_publication i on i.pubname = p.pubname || '_inserts'
      -- Whoever else made one may have written anything there.
      join pg_roles r on r.oid = p.pubowner and (r.rolsuper or r.rolreplication)
     where d.description like '{"pgrepl":%'
$function$;

create or replace function pgrepl.change_publication(
    pub name, action text, rel oid, patience text default '200ms')
returns boolean language plpgsql
set search_path = pg_catalog, pg_temp set lock_timeout = '200ms'
-- Event triggers of others are not meant for this.
set session_replication_role = 'replica' as $function$
begin
    perform set_config('lock_timeout', patience, true);
    execute format('alter publication %I %s table only %s', pub, action, rel::regclass);
    return true;
exception
    -- Older snapshots of a transaction do not show what another one did: it is as wanted.
    when duplicate_object or undefined_object then
        return true;
    when others then
        return false;
end
$function$;

create or replace function pgrepl.keep_identity(rel oid) returns void language plpgsql
set search_path = pg_catalog, pg_temp
set session_replication_role = 'replica' as $function$
begin
    execute format('alter table only %s replica identity full', rel::regclass);
exception
    when others then
        raise warning 'pgrepl: table % is published and has no replica identity: %',
            rel::regclass, sqlerrm using hint = 'See pgrepl doctor.';
end
$function$;

-- Note a table that joins, unless this transaction made it and nothing of it can be missing.
create or replace function pgrepl.note_joined(rel oid, is_incomplete boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
    v_is_changed boolean := is_incomplete
        or pg_stat_get_xact_tuples_updated(rel) + pg_stat_get_xact_tuples_deleted(rel) > 0
        or not current_setting('track_counts')::boolean;
begin
    -- Of a system column: nothing but the CREATE TABLE writes this row.
    if not v_is_changed
       and exists (select from pg_attribute where attrelid = rel and attnum = -1
                      and xmin = pg_current_xact_id()::xid)
    then
        return;
    end if;
    insert into pgrepl.joined_late (relation, lsn, xid, is_changed)
    values (rel, pg_current_wal_insert_lsn(), pg_current_xact_id(), v_is_changed);
    -- Of what a serializable transaction reads the server remembers that it did.
    if current_setting('transaction_isolation') = 'serializable' then
        return;
    end if;
    begin
        -- What the new note stands for too, and, now and then, notes of tables that were dropped.
        delete from pgrepl.joined_late
         where ctid = any (array(
               select j.ctid from pgrepl.joined_late j
                where j.relation = rel and j.xid <> pg_current_xact_id()
                  and (v_is_changed or not j.is_changed)
                  for update skip locked));
        if random() < 0.02 then
            delete from pgrepl.joined_late
             where ctid = any (array(
                   select j.ctid from pgrepl.joined_late j
                    where not exists (select from pg_class c where c.oid = j.relation)
                      for update skip locked));
        end if;
    exception
        when others then
            null; -- There are more notes than needed.
    end;
end
$function$;

-- Whoever adds a table to a publication: the function below, pgrepl, a person.
create or replace function pgrepl.note_joins() returns event_trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp set jit = off as $function$
begin
    perform pgrepl.note_joined(r.prrelid, false)
       from pg_event_trigger_ddl_commands() c
       join pg_publication_rel r on r.oid = c.objid
       join pg_publication p on p.oid = r.prpubid
      where c.classid = 'pg_publication_rel'::regclass
        and p.pubname in (select whole from pgrepl.publications())
        -- What was before the publication, no slot has read through it.
        and p.xmin <> pg_current_xact_id()::xid;
exception
    when others then
        raise warning 'pgrepl: tables that join a publication cannot be noted: %', sqlerrm
            using hint = 'Copy them again: pgrepl resync.';
end
$function$;

-- Whether the server refuses to change a table because it is published.
create or replace function pgrepl.is_refused(rel oid) returns boolean language plpgsql
set search_path = pg_catalog, pg_temp
-- Rules of the table are for those who change it.
set session_replication_role = 'replica' as $function$
begin
    execute format('explain delete from only %s', rel::regclass);
    return false;
exception
    when object_not_in_prerequisite_state then
        return true;
    when others then
        return false;
end
$function$;

-- An older snapshot of a transaction shows neither that a table joined since nor what it lost. What
-- the transaction changed it has locked, and the server itself knows. Of a table that it made, it
-- sees all.
create or replace function pgrepl.release_unseen(rels oid[]) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $function$
declare
    v_pub name;
    v_rel oid;
begin
    for v_pub, v_rel in
        select p.whole, t.relid
          from pgrepl.publications() p
         cross join lateral pg_get_publication_tables(p.whole::text) t
         where (rels is null or t.relid = any (rels))
           and exists (select from pg_locks l
                        where l.relation = t.relid and l.pid = pg_backend_pid() and l.granted
                          and l.mode = 'AccessExclusiveLock' and l.locktype = 'relation')
           and not exists (select from pg_attribute a
                            where a.attrelid = t.relid and a.attnum = -1
                              and age(a.xmin) <= age(pg_current_xact_id()::xid))
    loop
        if pgrepl.is_refused(v_rel) and not pgrepl.change_publication(v_pub, 'drop', v_rel) then
            perform pgrepl.keep_identity(v_rel);
        end if;
    end loop;
exception
    when undefined_object then
        null; -- An older snapshot shows a publication that was dropped since, too.
end
$function$;

-- What a command may be written in, in small letters and without quotes: the message of the client,
-- and statements of functions. Those of a function in SQL are known by its body alone.
create or replace function pgrepl.texts_in_hand() returns text language plpgsql
set search_path = pg_catalog, pg_temp set lc_messages = 'C' as $function$
declare
    v_context text;
    v_bodies  text;
begin
    get diagnostics v_context = pg_context;
    if strpos(v_context, 'SQL function "') > 0 then
        select string_agg(p.prosrc, ';') into v_bodies
          from pg_proc p
          join pg_language l on l.oid = p.prolang
         where l.lanname = 'sql'
           and strpos(v_context, format('SQL function "%s" statement', p.proname)) > 0;
    end if;
    -- What is left of who called whom are statements.
    v_context := regexp_replace(v_context, E'^(PL/pgSQL function [^\n]*|SQL statement )', ';', 'gn');
    return lower(replace(concat_ws(';', current_query(), v_context, v_bodies), '"', ''));
end
$function$;

-- As core/publications/sql/tables.sql judges.
create or replace function pgrepl.follow_command(event text, tag text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $function$
declare
    v_rels   oid[];
    v_family oid[];
    v_pub    record;
    v_table  record;
    -- Whether the command dropped anything of a table, or made or altered one.
    v_has_dropped boolean;
    v_has_made    boolean;
    -- Whether the command may have changed any table at all.
    v_is_open boolean := false;
    -- Whether the publication sends columns that are generated.
    v_sends_generated boolean;
    -- What the command may be written in, and what of that makes a table unlogged.
    v_text text;
    v_pieces text[];
    -- Many tables do not wait one after the other.
    v_patience text := '200ms';
begin
    if event = 'sql_drop' then
        -- Whichever command it is, an identity is never lost without one of these. What is done about
        -- it comes after the command, as the rows of captured DDL that are about it.
        if exists (select from pg_event_trigger_dropped_objects()
                    where not is_temporary
                      and object_type in ('index', 'table constraint', 'table column'))
        then
            perform set_config('pgrepl.has_dropped', 'yes', true);
        end if;
        return;
    end if;
    if event = 'ddl_command_end' then
        v_has_dropped := coalesce(current_setting('pgrepl.has_dropped', true), '') = 'yes';
        v_has_made := tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE',
                                 'CREATE SCHEMA', 'ALTER SCHEMA', 'CREATE EXTENSION',
                                 'ALTER EXTENSION');
        if v_has_dropped then
            perform set_config('pgrepl.has_dropped', '', true);
        elsif not v_has_made then
            return;
        end if;
    end if;
    if not exists (select from pgrepl.publications()) then
        return;
    end if;

    if event = 'ddl_command_start' then
        -- Which tables it is about is not known yet: whatever the statement names may be one.
        v_text := pgrepl.texts_in_hand();
        if v_text !~ 'unlogged' then
            return;
        end if;
        -- A semicolon may stand in a comment as well.
        select coalesce(array_agg(piece), array[v_text]) into v_pieces
          from unnest(string_to_array(v_text, ';')) piece
         where piece ~ E'\\malter\\M.*\\mtable\\M.*\\mset\\M.*\\munlogged\\M';
        begin
            for v_table in
                select n.pubname, t.relid as oid
                  from pgrepl.publications() p
                 cross join lateral (select p.whole union all select p.inserts where p.is_listed)
                       as n (pubname)
                 -- Not the catalogue: older snapshots of a transaction do not show what joined since.
                 cross join lateral pg_get_publication_tables(n.pubname::text) t
                 cross join lateral pg_identify_object_as_address('pg_class'::regclass, t.relid, 0) a
                 cross join lateral lower(replace(a.object_names[2], '"', '')) c (name)
                 -- A plain name stands for itself, and not for a part of other words. One that is
                 -- written in numbers of characters may be any.
                 where case when c.name ~ '^[a-z0-9_]+$'
                            then exists (select from unnest(v_pieces) piece
                                          where piece ~ (E'\\m' || c.name || E'\\M')
                                             or piece ~ E'\\mu&')
                            when strpos(c.name, ';') > 0 then strpos(v_text, c.name) > 0
                            else exists (select from unnest(v_pieces) piece
                                          where strpos(piece, c.name) > 0 or piece ~ E'\\mu&') end
            loop
                -- The statement would fail if it went on without: it waits as long as for the table.
                perform pgrepl.change_publication(
                    v_table.pubname, 'drop', v_table.oid, current_setting('lock_timeout'));
            end loop;
        exception
            when undefined_object then
                null; -- An older snapshot shows a publication that was dropped since.
        end;
        return;
    end if;

    v_is_open := tag in ('ALTER SCHEMA', 'ALTER EXTENSION', 'CREATE EXTENSION', 'CREATE SCHEMA')
                 -- What left before it and is not unlogged after all comes back.
                 or tag = 'ALTER TABLE' and pgrepl.texts_in_hand() ~ 'unlogged';
    if v_has_made and not v_is_open then
        -- With its partitions and children, however deep ...
        with recursive family (oid) as (
            select c.objid
              from pg_event_trigger_ddl_commands() c
             where c.classid = 'pg_class'::regclass and c.schema_name is distinct from 'pg_temp'
               and c.object_type = 'table'
             union
            select h.inhrelid from family f join pg_inherits h on h.inhparent = f.oid)
        select array_agg(oid) into v_family from family;
        -- ... and all that may have lost something with it.
        select array_agg(oid) into v_rels
          from (select unnest(v_family) as oid
                 union
                select r.prrelid from pg_publication_rel r
                  join pg_publication p on p.oid = r.prpubid
                 where v_has_dropped and p.pubname in (select whole from pgrepl.publications())) t;
        if v_rels is null then
            return;
        end if;
    end if;

    for v_pub in select * from pgrepl.publications()
    loop
        -- From version 18 on generated columns can be sent, and an identity has to be sent whole.
        v_sends_generated := exists (select from pg_publication p
                                      where p.pubname = v_pub.whole
                                        and to_jsonb(p) ->> 'pubgencols' = 's');
        for v_table in
            with found as (
                select c.oid, w.oid is not null as is_in_whole, s.oid is not null as is_in_inserts,
                       c.relpersistence = 'p'
                       and (c.relreplident = 'f'
                            and not (current_setting('server_version_num')::int >= 180000
                                     and exists (select from pg_attribute a
                                                  where a.attrelid = c.oid and not a.attisdropped
                                                    and (a.attgenerated = 'v'
                                                         or a.attgenerated = 's'
                                                            and not v_sends_generated)))
                            or exists (select from pg_index x
                                        where x.indrelid = c.oid and x.indisvalid and x.indimmediate
                                          and (c.relreplident = 'd' and x.indisprimary
                                               or c.relreplident = 'i' and x.indisreplident)
                                          and (v_sends_generated
                                               or not exists (select from pg_attribute a
                                                               where a.attrelid = c.oid
                                                                 and a.attnum = any (x.indkey)
                                                                 and a.attgenerated <> ''))))
                           as has_identity,
                       n.nspname, coalesce(pg_partition_root(c.oid), c.oid) as root
                  from pg_class c
                  join pg_namespace n on n.oid = c.relnamespace
                  left join pg_publication_rel w on w.prrelid = c.oid and w.prpubid =
                       (select oid from pg_publication where pubname = v_pub.whole)
                  left join pg_publication_rel s on s.prrelid = c.oid and s.prpubid =
                       (select oid from pg_publication where pubname = v_pub.inserts)
                 where c.relkind = 'r' and (v_rels is null or c.oid = any (v_rels))
                   -- What drops makes nothing new.
                   and (v_rels is not null or v_is_open or w.oid is not null)
                   and (w.oid is not null or s.oid is not null or c.relpersistence = 'p'
                        and n.nspname !~ '^pg_'
                        and n.nspname not in ('information_schema', 'pgrepl')
                        and not exists (select from pg_depend d
                                         where d.classid = 'pg_class'::regclass and d.objid = c.oid
                                           and d.deptype = 'e')))
            select f.*,
                   f.nspname !~ '^pg_' and f.nspname not in ('information_schema', 'pgrepl')
                   and exists (select from json_array_elements(v_pub.included) e
                                where rn.nspname ~ (e->>0) and rc.relname ~ (e->>1))
                   and not exists (select from json_array_elements(v_pub.excluded) e
                                    where rn.nspname ~ (e->>0) and rc.relname ~ (e->>1))
                       as is_selected
              from found f
              join pg_class rc on rc.oid = f.root
              join pg_namespace rn on rn.oid = rc.relnamespace
             where f.is_in_whole and not f.has_identity or not f.is_in_whole and f.has_identity
                or v_pub.is_listed and not f.has_identity and not f.is_in_inserts
        loop
            if v_table.is_in_whole and not v_table.has_identity then
                if not pgrepl.change_publication(v_pub.whole, 'drop', v_table.oid, v_patience) then
                    v_patience := '1ms';
                    perform pgrepl.keep_identity(v_table.oid);
                    continue;
                end if;
            elsif v_table.has_identity and not v_table.is_in_whole and v_table.is_selected then
                if not pgrepl.change_publication(v_pub.whole, 'add', v_table.oid, v_patience) then
                    v_patience := '1ms';
                elsif v_table.is_in_inserts then
                    perform pgrepl.change_publication(v_pub.inserts, 'drop', v_table.oid);
                end if;
            end if;
            if v_pub.is_listed and v_table.is_selected and not v_table.has_identity
               and not v_table.is_in_inserts
               and exists (select from pg_class where oid = v_table.oid and relpersistence = 'p')
            then
                if not pgrepl.change_publication(v_pub.inserts, 'add', v_table.oid, v_patience) then
                    v_patience := '1ms';
                end if;
                -- Rows that the command itself wrote came before, and so did those of a table that
                -- was in neither.
                if tag in ('CREATE TABLE AS', 'SELECT INTO') or not v_table.is_in_whole then
                    perform pgrepl.note_joined(
                        v_table.oid, tag in ('CREATE TABLE AS', 'SELECT INTO'));
                end if;
            end if;
        end loop;
    end loop;

    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        -- What a table lost its partitions lose too, which are not seen either.
        perform pgrepl.release_unseen(case when not v_has_dropped then v_family end);
    end if;
end
$function$;

create or replace function pgrepl.keep_publications() returns event_trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp set jit = off as $function$
begin
    perform pgrepl.follow_command(tg_event, tg_tag);
exception
    -- Nothing that is wrong with us is to be the error of a command.
    when others then
        raise warning 'pgrepl: the publications cannot be kept: %', sqlerrm
            using hint = 'See pgrepl doctor.';
end
$function$;

revoke all on function pgrepl.publications(), pgrepl.change_publication(name, text, oid, text),
                       pgrepl.keep_identity(oid), pgrepl.note_joined(oid, boolean),
                       pgrepl.note_joins(), pgrepl.is_refused(oid), pgrepl.release_unseen(oid[]),
                       pgrepl.texts_in_hand(), pgrepl.follow_command(text, text),
                       pgrepl.keep_publications() from public;

-- "always": a session that is set to replica is no exception for the server either.
do $block$
begin
    drop event trigger if exists pgrepl_publications_start;
    drop event trigger if exists pgrepl_publications_drop;
    drop event trigger if exists pgrepl_publications_end;
    drop event trigger if exists pgrepl_publications_joins;
    -- Of a version before this.
    drop function if exists pgrepl.change_publication(name, text, pg_catalog.oid);
    create event trigger pgrepl_publications_start on ddl_command_start when tag in ('ALTER TABLE')
        execute function pgrepl.keep_publications();
    create event trigger pgrepl_publications_drop on sql_drop
        execute function pgrepl.keep_publications();
    create event trigger pgrepl_publications_end on ddl_command_end
        execute function pgrepl.keep_publications();
    create event trigger pgrepl_publications_joins on ddl_command_end
        when tag in ('ALTER PUBLICATION') execute function pgrepl.note_joins();
    alter event trigger pgrepl_publications_joins enable always;
    alter event trigger pgrepl_publications_start enable always;
    alter event trigger pgrepl_publications_drop enable always;
    alter event trigger pgrepl_publications_end enable always;
end
$block$;
