-- pgrepl: capture of DDL on a source, in plain SQL. Run as a superuser in the source database;
-- running it again renews it. To stop capturing at once: pgrepl ddl disable. To remove it:
-- pgrepl ddl uninstall.
--
-- Each DDL command that touches anything but temporary objects becomes a row of pgrepl.ddl_log, in
-- the transaction of the command and at its place among the changes. Ordinary users can neither
-- write the table nor call the functions, so nobody forges a row. A function that fails makes the
-- DDL fail: nothing goes uncaptured.
--
-- No program on the source may notice. In a user's transaction nothing is read but the catalogue,
-- which is exempt from predicate locks, and nothing is written but new rows of the log: no sequence,
-- no index, no pruning. What a session remembers it remembers in settings, which the user can change
-- too: they say which statement of a message ran, and never whether a row is written.
--
-- Before this, drop_triggers.sql, tables.sql and steering.sql run and the functions
-- pgrepl.table_definition, pgrepl.plain_table_definition, pgrepl.locale and pgrepl.homonyms are made;
-- horizon.sql runs after this has committed.

-- Runs as the user who runs the DDL, and only remembers who that is and how the names resolve. SET
-- needs no privilege, unlike set_config().
create or replace function pgrepl.ddl_context() returns event_trigger language plpgsql as $function$
begin
    execute 'set local pgrepl.caller = ' operator(pg_catalog.||) pg_catalog.quote_literal(
        pg_catalog.json_build_array(current_user,
                                    pg_catalog.current_schemas(false))::pg_catalog.text);
end
$function$;

-- Who called whom, in PostgreSQL's own words whatever the session's language is. The first two lines
-- are this function's and its caller's.
create or replace function pgrepl.ddl_calls() returns text language plpgsql
set lc_messages = 'C' as $function$
declare
    v_context text;
begin
    get diagnostics v_context = pg_context;
    return pg_catalog.substring(v_context, E'^[^\n]*\n[^\n]*\n(.*)$');
end
$function$;

-- The planner takes these queries for expensive, the more so where a session has switched ways of
-- planning off or plans them generically: compiling them took a second for each command.
create or replace function pgrepl.ddl_capture() returns event_trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp set jit = off as $function$
declare
    v_kind      text;
    v_context   text;
    v_text      text;
    v_hash      text;
    v_bodies    text;
    v_ordinal   bigint;
    v_count     text;
    v_stamp     text;
    v_script    text;
    v_command   record;
    v_name      name;
    v_rel       oid;
    v_list      json[];
    v_objects   json;
    v_dropped   json;
    v_rewritten json;
    v_table     json;
    v_tables    json;
    v_rels      oid[];
    v_caller    json;
    v_is_extension boolean;
begin
    v_is_extension := tg_tag in ('CREATE EXTENSION', 'ALTER EXTENSION');
    v_kind := 'end';
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
        -- A DROP names no objects at its end, so this row stands for its end too.
        if tg_tag not like 'DROP %' then
            v_kind := 'drop';
        end if;
        select json_agg(json_build_object('type', object_type, 'schema', schema_name,
                                          'names', address_names, 'identity', object_identity,
                                          'is_original', original)),
               array_agg(distinct objid) filter (where object_type = 'table column')
          into v_dropped, v_rels
          from pg_event_trigger_dropped_objects()
         where not is_temporary and (original or normal or object_type = 'table')
           and object_type not in ('type', 'toast table', 'default value',
                                   'function of access method', 'operator of access method')
            or original and not is_temporary;
        if v_dropped is null then
            return;
        end if;
    elsif tg_tag not like 'DROP %' then
        for v_command in
            select classid, objid, command_tag, object_type, schema_name, object_identity
              from pg_event_trigger_ddl_commands()
             where not in_extension and schema_name is distinct from 'pg_temp'
        loop
            v_name := null;
            v_rel := null;
            if v_command.classid = 'pg_class'::regclass then
                select c.relname, case when c.relkind in ('r', 'p') then c.oid else i.indrelid end
                  into v_name, v_rel
                  from pg_class c left join pg_index i on i.indexrelid = c.oid
                 where c.oid = v_command.objid;
            elsif v_command.classid = 'pg_type'::regclass then
                select typname into v_name from pg_type where oid = v_command.objid;
            elsif v_command.classid = 'pg_proc'::regclass then
                select proname into v_name from pg_proc where oid = v_command.objid;
            elsif v_command.classid = 'pg_namespace'::regclass then
                select nspname into v_name from pg_namespace where oid = v_command.objid;
                if tg_tag = 'ALTER SCHEMA' then
                    -- All its tables have another name now.
                    v_rels := v_rels || array(
                        select c.oid from pg_class c
                         where c.relnamespace = v_command.objid and c.relkind in ('r', 'p'));
                end if;
            elsif v_command.classid = 'pg_collation'::regclass then
                select collname into v_name from pg_collation where oid = v_command.objid;
            elsif v_command.classid = 'pg_statistic_ext'::regclass then
                select stxname, stxrelid into v_name, v_rel
                  from pg_statistic_ext where oid = v_command.objid;
            elsif v_command.classid = 'pg_trigger'::regclass then
                select tgrelid into v_rel from pg_trigger where oid = v_command.objid;
            elsif v_command.classid = 'pg_policy'::regclass then
                select polrelid into v_rel from pg_policy where oid = v_command.objid;
            elsif v_command.classid = 'pg_constraint'::regclass then
                select conrelid into v_rel from pg_constraint where oid = v_command.objid;
            elsif v_command.classid = 'pg_rewrite'::regclass then
                select ev_class into v_rel from pg_rewrite where oid = v_command.objid;
            end if;
            v_list := v_list || json_build_object(
                'tag', v_command.command_tag, 'type', v_command.object_type,
                'schema', v_command.schema_name, 'identity', v_command.object_identity,
                'name', v_name);
            if v_rel is not null and not v_rel = any (coalesce(v_rels, '{}')) then
                v_rels := v_rels || v_rel;
            end if;
        end loop;
        v_objects := array_to_json(v_list);
    end if;

    get diagnostics v_context = pg_context;
    -- The first line is this function's own.
    v_context := nullif(substr(v_context, strpos(v_context || E'\n', E'\n') + 1), '');
    if v_context is not null and current_setting('lc_messages') !~ '^(C|POSIX|en)' then
        v_context := pgrepl.ddl_calls();
    end if;

    -- Several statements in one text are told apart by counting those that are done. The count
    -- lives in the session: what is rolled back is not counted, what is committed stays so.
    v_text := coalesce(v_context, current_query());
    if v_kind in ('start', 'end') and strpos(rtrim(v_text, E'; \n\r\t'), ';') > 0 then
        v_stamp := extract(epoch from statement_timestamp())::text;
        -- Not md5(), which a server that is held to FIPS refuses.
        v_hash := lpad(to_hex(hashtextextended(v_text, 0)), 16, '0');
        -- What an extension's script does are no statements of the text; it may alter extensions.
        v_script := coalesce(current_setting('pgrepl.script', true), '');
        if split_part(v_script, ' ', 1) <> v_stamp then
            v_script := v_stamp || ' ';
        end if;
        if v_is_extension then
            v_script := case v_kind when 'start' then v_script || '+'
                                    else regexp_replace(v_script, '[+]$', '') end;
            perform set_config('pgrepl.script', v_script, true);
        end if;
        v_count := coalesce(current_setting('pgrepl.count', true), '');
        if split_part(v_count, ' ', 1) <> v_stamp then
            v_count := v_stamp || ' ';
        end if;
        v_ordinal := 1 + coalesce(
            substring(v_count from v_hash || '=([0-9]{1,9})')::bigint, 0);
        if tg_event = 'ddl_command_end' and v_script = v_stamp || ' ' then
            v_count := regexp_replace(v_count, v_hash || '=[0-9]+ ', '')
                       || v_hash || '=' || v_ordinal || ' ';
            perform set_config('pgrepl.count', v_count, false);
        end if;
    end if;

    -- What is temporary for certain is not worth a row before its command. Of a SQL function nothing
    -- is certain: the account of who called whom has no statement, and the message is the caller's.
    if v_kind = 'start' and v_ordinal is null
       and (case when v_context is null then current_query()
                 else substring(v_context from '^SQL statement "(.*)') end)
           ~* '^[[:space:]]*create[[:space:]]+((global|local)[[:space:]]+)?temp(orary)?[[:space:]]'
    then
        return;
    end if;

    -- A command that did nothing, or only to temporary objects or in an extension's script. And
    -- materialized views are not replicated, and some are refreshed every minute; REINDEX, which fires
    -- triggers since 17, may run in a read-only transaction and changes no structure.
    if v_kind = 'end' and v_objects is null and v_dropped is null and not v_is_extension
       or tg_tag in ('REFRESH MATERIALIZED VIEW', 'REINDEX')
       -- Ours, see core/publications/sql/guard.sql.
       or tg_tag = 'ALTER PUBLICATION' and v_context ~ 'function pgrepl[.]change_publication[(]'
    then
        return;
    end if;

    -- An attached partition is new to the replicated tables. Its link is as young as this
    -- transaction; some of another one do no harm. A detached one has no link any more, and may have
    -- got a constraint: what is no partition and as young is told with a partitioned table.
    if tg_tag = 'ALTER TABLE' and v_rels is not null then
        -- What is done to a table is done to those that inherit from it, which may be replicated where
        -- it is not. Partitions go with their root.
        v_rels := v_rels || array(
            with recursive child (oid) as (
                select h.inhrelid
                  from pg_inherits h join pg_class p on p.oid = h.inhparent
                 where p.oid = any (v_rels) and p.relkind = 'r'
                 union
                select h.inhrelid from child join pg_inherits h on h.inhparent = child.oid)
            select child.oid from child where not child.oid = any (v_rels));
        v_rels := v_rels || array(
            select h.inhrelid from pg_inherits h
             where h.inhparent = any (v_rels) and not h.inhrelid = any (v_rels)
               and age(h.xmin) <= age(pg_current_xact_id()::xid));
        if (v_text ~* 'detach' or v_context like 'SQL function "%')
           and exists (select from pg_class where oid = any (v_rels) and relkind = 'p')
        then
            v_rels := v_rels || array(
                select c.oid from pg_class c
                 where c.relkind in ('r', 'p') and not c.relispartition
                   and c.relpersistence <> 't' and not c.oid = any (v_rels)
                   and age(c.xmin) <= age(pg_current_xact_id()::xid));
        end if;
    end if;

    if v_rels is not null then
        v_list := null;
        -- What is printed must not depend on how this session likes its dates and names.
        if current_setting('quote_all_identifiers') = 'off'
           and current_setting('standard_conforming_strings') = 'on'
           and current_setting('DateStyle') like 'ISO,%' and current_setting('TimeZone') = 'UTC'
           and current_setting('IntervalStyle') = 'postgres'
           and current_setting('extra_float_digits')::integer > 0
           and current_setting('bytea_output') = 'hex' and current_setting('lc_monetary') = 'C'
        then
            foreach v_rel in array v_rels
            loop
                v_table := pgrepl.table_definition(v_rel);
                v_list := case when v_table is null then v_list else v_list || v_table end;
            end loop;
        else
            foreach v_rel in array v_rels
            loop
                v_table := pgrepl.plain_table_definition(v_rel);
                v_list := case when v_table is null then v_list else v_list || v_table end;
            end loop;
        end if;
        v_tables := array_to_json(v_list);
    end if;

    if v_context like 'SQL function "%' then
        select json_agg(p.prosrc)::text into v_bodies
          from pg_proc p join pg_language l on l.oid = p.prolang
         where l.lanname = 'sql' and p.prosqlbody is null
           and p.proname = substring(v_context from '^SQL function "(.*?)" statement [0-9]+');
    end if;

    v_caller := current_setting('pgrepl.caller')::json;
    insert into pgrepl.ddl_log (kind, tag, xid, stmt_at, query, context, bodies, ordinal, path,
                                invoker, extensions, objects, dropped, rewritten, tables,
                                settings, locale, homonyms)
    values (v_kind, tg_tag, pg_current_xact_id()::text, statement_timestamp(), current_query(),
            v_context, v_bodies, v_ordinal, v_caller->>1, v_caller->>0,
            (select coalesce(json_object_agg(x.extname, n.nspname), '{}')::text
               from pg_extension x join pg_namespace n on n.oid = x.extnamespace),
            v_objects::text, v_dropped::text, v_rewritten::text, v_tables::text,
            json_build_object(
                'TimeZone', current_setting('TimeZone'),
                'timezone_abbreviations', current_setting('timezone_abbreviations'),
                'DateStyle', current_setting('DateStyle'),
                'IntervalStyle', current_setting('IntervalStyle'),
                'bytea_output', current_setting('bytea_output'),
                'extra_float_digits', current_setting('extra_float_digits'),
                'lc_monetary', current_setting('lc_monetary'),
                'lc_numeric', current_setting('lc_numeric'),
                'lc_time', current_setting('lc_time'),
                'xmlbinary', current_setting('xmlbinary'),
                'xmloption', current_setting('xmloption'),
                'array_nulls', current_setting('array_nulls'),
                'transform_null_equals', current_setting('transform_null_equals'),
                'quote_all_identifiers', current_setting('quote_all_identifiers'),
                'default_text_search_config', current_setting('default_text_search_config'),
                'check_function_bodies', current_setting('check_function_bodies'),
                'standard_conforming_strings', current_setting('standard_conforming_strings')
            )::text,
            pgrepl.locale(),
            case when v_kind = 'end' and tg_tag in ('ALTER TABLE', 'ALTER TYPE')
                 then pgrepl.homonyms() end);
end
$function$;

revoke all on function pgrepl.table_definition(oid), pgrepl.plain_table_definition(oid),
                       pgrepl.locale(), pgrepl.homonyms(), pgrepl.ddl_context(),
                       pgrepl.ddl_calls(), pgrepl.ddl_capture() from public;

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
