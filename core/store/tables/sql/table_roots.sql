-- The replicated tables of a source that have rows, with what patterns select them by: their names
-- there, and those of the root for a partition, as the copies tell it.
select t.schema_name::text, t.table_name::text,
       coalesce(rs.source_schema, t.schema_name)::text as root_schema,
       coalesce(rx.table_name, r.relname, t.table_name)::text as root_name
  from replication.source_table t
  left join replication.target_schema s
         on s.source_id = t.source_id and s.source_schema = t.schema_name
  left join pg_namespace n on n.nspname = s.target_schema
  left join replication.target_table x
         on x.source_id = t.source_id and x.schema_name = t.schema_name
        and x.table_name = t.table_name
  -- what is called like the table is not its copy where it is that of another one
  left join replication.target_table y
         on y.source_id = t.source_id and y.schema_name = t.schema_name
        and y.target_name = t.table_name
  left join pg_class c on c.relnamespace = n.oid
                      and c.relname = coalesce(x.target_name,
                                           case when y.source_id is null then t.table_name end)
  left join pg_class r on r.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = r.relnamespace
  left join replication.target_schema rs
         on rs.source_id = t.source_id and rs.target_schema = rn.nspname
  left join replication.target_table rx
         on rx.source_id = t.source_id and rx.schema_name = rs.source_schema
        and rx.target_name = r.relname
 where t.source_id = %(source)s and c.relkind is distinct from 'p'
 order by 1, 2
