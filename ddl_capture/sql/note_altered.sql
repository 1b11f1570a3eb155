-- Forget from where on the capture is complete when one of its event triggers was altered since: one
-- that was disabled and enabled by hand is a row of a later transaction, of whose number the row has
-- the last 32 bits. A table of a role that is no superuser is not touched: its triggers would run.
do $block$
begin
    if exists (
        select from pg_catalog.pg_class c join pg_catalog.pg_roles r on r.oid = c.relowner
         where c.oid = pg_catalog.to_regclass('pgrepl.capture')
           and (r.rolsuper or r.rolname = current_user))
    then
        update pgrepl.capture c
           set horizon = '18446744073709551615', complete_lsn = null
          from (select pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::numeric
               ) s (newest)
         where c.horizon <> '18446744073709551615'
           and exists (
               select from pg_catalog.pg_event_trigger t
                where t.evtname ~ '^pgrepl_.*_[01]$'
                  and s.newest - pg_catalog.mod(
                          s.newest - t.xmin::text::numeric + 4294967296, 4294967296)
                      >= c.horizon::text::numeric);
    end if;
end
$block$;
