-- Take away the event triggers of the capture. Installing begins with it, or what it does next would
-- be captured itself; others see the old triggers until the new ones are there. Where they were not
-- all enabled, DDL may have run unseen: from where on the capture is complete is then not known any
-- more. A table of a role that is no superuser is not touched: its triggers would run.
do $block$
declare
    v_name  text;
    v_count bigint;
begin
    select count(*) into v_count
      from pg_catalog.pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$' and evtenabled = 'A';
    if v_count < 8 and exists (
        select from pg_catalog.pg_class c join pg_catalog.pg_roles r on r.oid = c.relowner
         where c.oid = pg_catalog.to_regclass('pgrepl.capture')
           and (r.rolsuper or r.rolname = current_user))
    then
        update pgrepl.capture set horizon = '18446744073709551615', complete_lsn = null;
    end if;
    for v_name in select evtname from pg_catalog.pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$'
    loop
        execute pg_catalog.format('drop event trigger %I', v_name);
    end loop;
end
$block$;
