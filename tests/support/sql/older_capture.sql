-- The capture as the first version installed it, for what renews it and for its rows.
begin;
-- Take away the event triggers of the capture. Installing begins with it, or what it does next would
-- be captured itself; others see the old triggers until the new ones are there.
do $block$
declare
    v_name text;
begin
    for v_name in select evtname from pg_catalog.pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$'
    loop
        execute pg_catalog.format('drop event trigger %I', v_name);
    end loop;
end
$block$;

create schema if not exists pgrepl;

create or replace function pgrepl.table_definition(rel oid) returns json language sql stable set search_path = pg_catalog, pg_temp as $function$
-- The structure of one table, as JSON. "rel" is its OID. The same query runs on both sides: on the
-- source after each command (it is the body of pgrepl.table_definition), on the target after the
-- command was applied there. Needs search_path = pg_catalog, so that every name is qualified.
select json_build_object(
         'schema', n.nspname,
         'name', c.relname,
         'kind', c.relkind,
         'persistence', c.relpersistence,
         'identity', c.relreplident,
         'extension', exists (select from pg_depend d
                               where d.classid = 'pg_class'::regclass and d.objid = c.oid
                                 and d.deptype = 'e'),
         'partition_key', pg_get_partkeydef(c.oid),
         'bound', pg_get_expr(c.relpartbound, c.oid),
         -- What selects it: the table itself, or the root of its partitions.
         'root', (select json_build_array(rn.nspname, r.relname)
                    from pg_class r join pg_namespace rn on rn.oid = r.relnamespace
                   where r.oid = coalesce(pg_partition_root(c.oid), c.oid)),
         'parents', (select json_agg(json_build_array(pn.nspname, p.relname) order by h.inhseqno)
                       from pg_inherits h
                       join pg_class p on p.oid = h.inhparent
                       join pg_namespace pn on pn.oid = p.relnamespace
                      where h.inhrelid = c.oid and not h.inhdetachpending),
         'columns', (select json_agg(json_build_object(
                              'name', a.attname,
                              'type', format_type(a.atttypid, a.atttypmod),
                              'not_null', a.attnotnull,
                              'default', case when a.attgenerated = ''
                                              then pg_get_expr(d.adbin, d.adrelid) end,
                              'generated', case when a.attgenerated <> ''
                                                then pg_get_expr(d.adbin, d.adrelid) end,
                              'identity', a.attidentity,
                              'collation', case when a.attcollation <> t.typcollation
                                                then a.attcollation::regcollation::text end)
                              order by a.attnum)
                       from pg_attribute a
                       join pg_type t on t.oid = a.atttypid
                       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
                      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
         'constraints', (select json_agg(json_build_object(
                                  'name', k.conname,
                                  'type', k.contype,
                                  'definition', pg_get_constraintdef(k.oid),
                                  'references', case when k.confrelid <> 0 then
                                      (select json_build_array(fn.nspname, f.relname)
                                         from pg_class f
                                         join pg_namespace fn on fn.oid = f.relnamespace
                                        where f.oid = coalesce(pg_partition_root(k.confrelid),
                                                               k.confrelid)) end)
                                  order by k.conname)
                           from pg_constraint k
                          where k.conrelid = c.oid and k.contype in ('c', 'f', 'p', 'u', 'x')
                            -- What a foreign key has for single partitions is named by chance.
                            and (k.contype <> 'f' or k.conparentid = 0)),
         'unique_indexes', (select json_agg(json_build_object(
                                     'name', x.relname,
                                     'definition', pg_get_indexdef(i.indexrelid),
                                     'identity', i.indisreplident)
                                     order by x.relname)
                              from pg_index i
                              join pg_class x on x.oid = i.indexrelid
                             where i.indrelid = c.oid and i.indisunique and i.indisvalid))
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.oid = rel and c.relkind in ('r', 'p')
$function$;

-- pgrepl: capture of DDL on a source, in plain SQL. Run as a superuser in the source database;
-- running it again renews it. To stop capturing at once: pgrepl ddl disable. To remove it:
-- pgrepl ddl uninstall.
--
-- Each DDL command that touches anything but temporary objects becomes a row of pgrepl.ddl_log, in
-- the transaction of the command and at its place among the changes. Ordinary users can neither
-- write the table nor call the functions, so nobody forges a row. A function that fails makes the
-- DDL fail: nothing goes uncaptured.
--
-- Before this, drop_triggers.sql runs and the function pgrepl.table_definition is made, with
-- table_definition.sql as its body; horizon.sql runs after this has committed.

create table if not exists pgrepl.ddl_log (
    id         bigint      generated always as identity primary key,
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
    tables     text
);

create index if not exists ddl_log_xid on pgrepl.ddl_log (xid, id);

create table if not exists pgrepl.capture (
    is_only_row  boolean     primary key default true check (is_only_row),
    installed_at timestamptz not null,
    -- Transactions below it may have run DDL before the triggers were there.
    horizon      xid8        not null,
    -- Set once the last of them is over: from here on every DDL is captured.
    complete_lsn pg_lsn
);

revoke all on schema pgrepl from public;
revoke all on pgrepl.ddl_log, pgrepl.capture from public;
revoke all on function pgrepl.table_definition(oid) from public;

-- Runs as the user who runs the DDL, and only remembers how that user's names resolve.
create or replace function pgrepl.ddl_context() returns event_trigger language plpgsql as $function$
begin
    perform pg_catalog.set_config('pgrepl.path',
                pg_catalog.array_to_json(pg_catalog.current_schemas(false))::pg_catalog.text, true),
            pg_catalog.set_config('pgrepl.invoker', current_user::pg_catalog.text, true);
end
$function$;

create or replace function pgrepl.ddl_capture() returns event_trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp set lc_messages = 'C' as $function$
declare
    v_kind      text;
    v_context   text;
    v_text      text;
    v_bodies    text;
    v_ordinal   bigint;
    v_count     text;
    v_stamp     text;
    v_objects   json;
    v_dropped   json;
    v_rewritten json;
    v_tables    json;
    v_rels      oid[];
    v_is_extension boolean;
begin
    -- What an extension's script does is the extension's affair.
    v_is_extension := tg_tag in ('CREATE EXTENSION', 'ALTER EXTENSION');
    if not v_is_extension and 'start' =
       (select l.kind from pgrepl.ddl_log l
         where l.xid = pg_current_xact_id_if_assigned()::text
           and l.tag in ('CREATE EXTENSION', 'ALTER EXTENSION') order by l.id desc limit 1)
    then
        return;
    end if;

    get diagnostics v_context = pg_context;
    -- The first line is this function's own.
    v_context := nullif(substr(v_context, strpos(v_context || E'\n', E'\n') + 1), '');

    if tg_event = 'ddl_command_start' then
        v_kind := 'start';
    elsif tg_event = 'table_rewrite' then
        v_kind := 'rewrite';
        select json_build_object('schema', n.nspname, 'name', c.relname,
                                 'reason', pg_event_trigger_table_rewrite_reason())
          into v_rewritten
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where c.oid = pg_event_trigger_table_rewrite_oid() and c.relpersistence <> 't';
        if v_rewritten is null then
            return;
        end if;
    elsif tg_event = 'sql_drop' then
        v_kind := 'drop';
        select json_agg(json_build_object('type', object_type, 'schema', schema_name,
                                          'names', address_names, 'identity', object_identity,
                                          'is_original', original)),
               array_agg(distinct objid) filter (where object_type = 'table column')
          into v_dropped, v_rels
          from pg_event_trigger_dropped_objects()
         where not is_temporary and (original or normal)
           and object_type not in ('type', 'toast table', 'default value',
                                   'function of access method', 'operator of access method')
            or original and not is_temporary;
        if v_dropped is null then
            return;
        end if;
    else
        v_kind := 'end';
        select json_agg(json_build_object(
                   'tag', e.command_tag, 'type', e.object_type,
                   'schema', e.schema_name, 'identity', e.object_identity,
                   'name', coalesce(c.relname, t.typname, p.proname, n.nspname, l.collname,
                                    s.stxname)))
                   filter (where not e.in_extension and e.schema_name is distinct from 'pg_temp'),
               array_agg(distinct coalesce(i.indrelid, c.oid, g.tgrelid, y.polrelid, k.conrelid,
                                           s.stxrelid, r.ev_class))
                   filter (where not e.in_extension and e.schema_name is distinct from 'pg_temp')
          into v_objects, v_rels
          from pg_event_trigger_ddl_commands() e
          left join pg_class c on e.classid = 'pg_class'::regclass and c.oid = e.objid
          left join pg_index i on i.indexrelid = c.oid
          left join pg_type t on e.classid = 'pg_type'::regclass and t.oid = e.objid
          left join pg_proc p on e.classid = 'pg_proc'::regclass and p.oid = e.objid
          left join pg_namespace n on e.classid = 'pg_namespace'::regclass and n.oid = e.objid
          left join pg_collation l on e.classid = 'pg_collation'::regclass and l.oid = e.objid
          left join pg_statistic_ext s
                 on e.classid = 'pg_statistic_ext'::regclass and s.oid = e.objid
          left join pg_trigger g on e.classid = 'pg_trigger'::regclass and g.oid = e.objid
          left join pg_policy y on e.classid = 'pg_policy'::regclass and y.oid = e.objid
          left join pg_constraint k on e.classid = 'pg_constraint'::regclass and k.oid = e.objid
          left join pg_rewrite r on e.classid = 'pg_rewrite'::regclass and r.oid = e.objid;
    end if;

    -- An attached partition is new to the replicated tables. Its link is as young as this
    -- transaction; some of another one do no harm.
    if tg_tag = 'ALTER TABLE' and v_rels is not null then
        v_rels := v_rels || array(
            select h.inhrelid from pg_inherits h
             where h.inhparent = any (v_rels) and not h.inhrelid = any (v_rels)
               and age(h.xmin) <= age(pg_current_xact_id()::xid));
    end if;

    -- Several statements in one text are told apart by counting those that are done. The count
    -- lives in the session: what is rolled back is not counted, what is committed stays so.
    v_text := coalesce(v_context, current_query());
    if v_kind in ('start', 'end')
       and strpos(rtrim(v_text, E'; \n\r\t'), ';') > 0
    then
        v_stamp := extract(epoch from statement_timestamp())::text;
        v_count := coalesce(current_setting('pgrepl.count', true), '');
        if split_part(v_count, ' ', 1) <> v_stamp then
            v_count := v_stamp || ' ';
        end if;
        v_ordinal := 1 + coalesce(
            substring(v_count from md5(v_text) || '=([0-9]{1,9})')::bigint, 0);
        if v_kind = 'end' then
            v_count := regexp_replace(v_count, md5(v_text) || '=[0-9]+ ', '')
                       || md5(v_text) || '=' || v_ordinal || ' ';
            perform set_config('pgrepl.count', v_count, false);
        end if;
    end if;

    -- What is temporary for certain is not worth a row before its command.
    if v_kind = 'start' and v_ordinal is null
       and coalesce(substring(v_context from '^SQL statement "(.*)'), current_query()) ~* '^\s*create\s+((global|local)\s+)?temp(orary)?\s'
    then
        return;
    end if;

    -- Materialized views are not replicated, and some are refreshed every minute.
    if tg_tag = 'REFRESH MATERIALIZED VIEW' then
        return;
    end if;

    -- A DROP names no objects at its end; whether it dropped anything, the row before it says.
    if v_kind = 'end' and v_objects is null and not v_is_extension and 'drop' is distinct from
       (select l.kind from pgrepl.ddl_log l
         where l.xid = pg_current_xact_id_if_assigned()::text order by l.id desc limit 1)
    then
        return;
    end if;

    select json_agg(d.definition) into v_tables
      from unnest(v_rels) as r (rel)
     cross join lateral pgrepl.table_definition(r.rel) as d (definition)
     where d.definition is not null;

    if v_context like 'SQL function "%' then
        select json_agg(p.prosrc)::text into v_bodies
          from pg_proc p join pg_language l on l.oid = p.prolang
         where l.lanname = 'sql' and p.prosqlbody is null
           and p.proname = substring(v_context from '^SQL function "(.*?)" statement [0-9]+');
    end if;

    insert into pgrepl.ddl_log (kind, tag, xid, stmt_at, query, context, bodies, ordinal, path,
                                invoker, extensions, objects, dropped, rewritten, tables)
    values (v_kind, tg_tag, pg_current_xact_id()::text, statement_timestamp(), current_query(),
            v_context, v_bodies, v_ordinal, current_setting('pgrepl.path'),
            current_setting('pgrepl.invoker'),
            (select coalesce(json_object_agg(x.extname, n.nspname), '{}')::text
               from pg_extension x join pg_namespace n on n.oid = x.extnamespace),
            v_objects::text, v_dropped::text, v_rewritten::text, v_tables::text);

    -- Who needs the rows reads them from the WAL; here they only serve curiosity.
    if v_kind = 'end' then
        delete from pgrepl.ddl_log
         where id = any (array(select id from pgrepl.ddl_log
                                where stmt_at < now() - interval '7 days'
                                order by id limit 100 for update skip locked));
    end if;
end
$function$;

-- Triggers of one event fire in the order of their names. "always": a session that is set to
-- replica is captured too.
do $block$
declare
    v_event text;
    -- A trigger that writes before DROP INDEX CONCURRENTLY would break it, so the start is watched
    -- only of commands that make tables with rows in them, and of extensions.
    v_tags constant text := $tags$ when tag in ('CREATE TABLE AS', 'SELECT INTO',
                                                'CREATE EXTENSION', 'ALTER EXTENSION')$tags$;
begin
    foreach v_event in array array['ddl_command_start', 'table_rewrite', 'sql_drop',
                                   'ddl_command_end']
    loop
        execute format('create event trigger pgrepl_%s_0 on %s%s'
                       ' execute function pgrepl.ddl_context()', v_event, v_event,
                       case when v_event = 'ddl_command_start' then v_tags else '' end);
        execute format('create event trigger pgrepl_%s_1 on %s%s'
                       ' execute function pgrepl.ddl_capture()', v_event, v_event,
                       case when v_event = 'ddl_command_start' then v_tags else '' end);
        execute format('alter event trigger pgrepl_%s_0 enable always', v_event);
        execute format('alter event trigger pgrepl_%s_1 enable always', v_event);
    end loop;
end
$block$;

commit;
-- Remember that every transaction from now on is captured. Runs after the commit of install.sql, or
-- of the command that enabled the triggers: a transaction that began before may have run DDL unseen.
insert into pgrepl.capture (installed_at, horizon)
values (pg_catalog.now(), pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))
on conflict (is_only_row) do update
   set (installed_at, horizon, complete_lsn) = (excluded.installed_at, excluded.horizon, null);
