-- What the role that runs pgrepl may do to the capture; it is granted these functions and no more.

-- Switch every trigger on or off, at once.
create or replace function pgrepl.switch(is_on boolean) returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp as $function$
declare
    v_name text;
begin
    for v_name in select evtname from pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$'
    loop
        execute format('alter event trigger %I %s', v_name,
                       case when is_on then 'enable always' else 'disable' end);
    end loop;
    if not is_on then
        begin
            -- As in note_off.sql.
            update pgrepl.capture
               set (horizon, complete_lsn, off_at, off_lsn)
                   = ('18446744073709551615', null, now(), pg_current_wal_insert_lsn())
             where horizon <> '18446744073709551615';
        exception
            when others then
                raise warning 'pgrepl: cannot note that the capture is off: %', sqlerrm;
        end;
    end if;
end
$function$;

-- Remove rows that nobody needs any more: they are read from the WAL. Not part of the triggers,
-- where the transaction of another session would be cancelled because of it.
create or replace function pgrepl.prune() returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp as $function$
declare
    v_count bigint;
begin
    delete from pgrepl.ddl_log where stmt_at < now() - interval '7 days';
    get diagnostics v_count = row_count;
    return v_count;
end
$function$;

revoke all on function pgrepl.switch(boolean), pgrepl.prune() from public;

-- Who was granted an older version of the capture may do this too.
do $block$
declare
    v_role text;
begin
    for v_role in
        select pg_catalog.pg_get_userbyid(a.grantee)
          from pg_catalog.pg_class c
          cross join lateral pg_catalog.aclexplode(c.relacl) a
         where c.oid = 'pgrepl.capture'::pg_catalog.regclass and a.privilege_type = 'UPDATE'
           and a.grantee not in (0, c.relowner)
    loop
        execute pg_catalog.format(
            'grant execute on function pgrepl.switch(boolean), pgrepl.prune() to %I', v_role);
    end loop;
end
$block$;
