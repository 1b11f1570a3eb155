-- What there is of the capture on a source, and what of it the role may look at; read from the
-- catalogue, which every role may. Names are not resolved: that needs a right on the schema.
with pgrepl_table as (
    select c.relname                                                as name,
           pg_catalog.has_schema_privilege(n.oid, 'usage')
           and pg_catalog.has_table_privilege(c.oid, 'select')      as is_readable,
           pg_catalog.has_table_privilege(c.oid, 'update')          as is_writable
      from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'pgrepl' and c.relname in ('ddl_log', 'capture') and c.relkind = 'r'
),
pgrepl_function as (
    select pg_catalog.has_schema_privilege(n.oid, 'usage')
           and pg_catalog.has_function_privilege(p.oid, 'execute')  as is_callable
      from pg_catalog.pg_proc p
      join pg_catalog.pg_namespace n on n.oid = p.pronamespace
     where n.nspname = 'pgrepl' and p.proname = 'switch'
)
select pg_catalog.count(*)                                          as trigger_count,
       pg_catalog.count(*) filter (where t.evtenabled = 'A')        as enabled_count,
       exists (select from pgrepl_table where name = 'ddl_log')     as has_log,
       (select coalesce(pg_catalog.bool_and(is_readable), false)
          from pgrepl_table)                                        as is_readable,
       exists (select from pgrepl_table
                where name = 'capture' and is_writable)             as is_writable,
       exists (select from pgrepl_function)                         as has_switch,
       exists (select from pg_catalog.pg_attribute a
                 join pg_catalog.pg_class c on c.oid = a.attrelid
                 join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'pgrepl' and c.relname = 'ddl_log'
                  and a.attname = 'homonyms')                       as has_homonyms,
       exists (select from pgrepl_function where is_callable)       as may_switch,
       (select r.rolsuper from pg_catalog.pg_roles r
         where r.rolname = current_user)                            as is_superuser
  from pg_catalog.pg_event_trigger t
 where t.evtname ~ '^pgrepl_.*_[01]$'
