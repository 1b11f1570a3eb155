-- One row per view or materialized view of a source that belongs to no extension.
select c.oid::bigint      as oid,
       n.nspname::text    as schema,
       c.relname::text    as name,
       c.relkind = 'm'    as is_materialized,
       c.relispopulated   as is_populated
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('v', 'm')
   and c.relpersistence <> 't'
   and n.nspname !~ '^pg_'
   and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
 order by n.nspname, c.relname
