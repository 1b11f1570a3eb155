-- What there is of the capture on a source, read from the catalogue, which everybody may.
select pg_catalog.count(*)                                          as trigger_count,
       pg_catalog.count(*) filter (where t.evtenabled = 'A')        as enabled_count,
       pg_catalog.to_regclass('pgrepl.ddl_log') is not null         as has_log,
       (select r.rolsuper from pg_catalog.pg_roles r
         where r.rolname = current_user)                            as is_superuser
  from pg_catalog.pg_event_trigger t
 where t.evtname ~ '^pgrepl_.*_[01]$'
