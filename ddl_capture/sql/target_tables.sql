-- Some schemas of the target and the tables in them, with the root of each partition.
select n.oid::bigint                           as schema_oid,
       n.nspname::text                         as schema,
       c.oid::bigint                           as oid,
       c.relname::text                         as name,
       coalesce(rn.nspname, n.nspname)::text   as root_schema,
       coalesce(r.relname, c.relname)::text    as root_name,
       c.relpersistence = 'p'                  as is_permanent,
       c.relkind = 'r'                         as has_rows
  from pg_catalog.pg_namespace n
  left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p')
  left join pg_catalog.pg_class r on r.oid = pg_catalog.pg_partition_root(c.oid)
  left join pg_catalog.pg_namespace rn on rn.oid = r.relnamespace
 where n.nspname = any (%(schemas)s::text[])
