-- The tables of a source whose changes come under their own names, with the name of the root of each
-- that is a partition on the target.
select t.schema_name::text, t.table_name::text,
       coalesce(rm.source_schema, t.schema_name)::text as root_schema,
       coalesce(r.relname, t.table_name)::text         as root_name
  from replication.source_table t
  left join replication.target_schema m
    on m.source_id = t.source_id and m.source_schema = t.schema_name
  left join pg_namespace n on n.nspname = m.target_schema
  left join pg_class c on c.relnamespace = n.oid and c.relname = t.table_name
  left join pg_class r on r.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = r.relnamespace
  left join replication.target_schema rm
    on rm.source_id = t.source_id and rm.target_schema = rn.nspname
 where t.source_id = %(source)s and c.relkind is distinct from 'p'
 order by 1, 2
