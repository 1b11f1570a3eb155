-- Which of some tables the target has nothing of: no relation under the name or one that the table
-- had before, and no copy of the same relation of the source under another name.
select k.schema_name, k.table_name
  from unnest(%(schemas)s::text[], %(names)s::text[], %(oids)s::bigint[])
       as k (schema_name, table_name, oid)
 where not exists (
       select from replication.target_schema s
         join pg_catalog.pg_namespace n on n.nspname = s.target_schema
         join pg_catalog.pg_class c on c.relnamespace = n.oid
         left join replication.target_table x
                on x.source_id = s.source_id and x.schema_name = s.source_schema
               and x.target_name = c.relname
        where s.source_id = %(source_id)s
          and (s.source_schema::text, coalesce(x.table_name, c.relname)::text) in (
              select k.schema_name, k.table_name
              union all
              select * from unnest(%(old_schemas)s::text[], %(old_names)s::text[])))
   and not exists (
       select from replication.source_table t
        where t.source_id = %(source_id)s and t.state <> 'pending'
          and (t.source_oid = k.oid
               or t.schema_name = k.schema_name and t.table_name = k.table_name)
          -- one that is being made, or is there; whoever dropped it has not asked the source
          and (t.state = 'copying' or exists (
              select from replication.target_schema s
                join pg_catalog.pg_namespace n on n.nspname = s.target_schema
                left join replication.target_table x
                       on x.source_id = t.source_id and x.schema_name = t.schema_name
                      and x.table_name = t.table_name
                -- what is called like the table is not its copy where it is that of another one
                left join replication.target_table y
                       on y.source_id = t.source_id and y.schema_name = t.schema_name
                      and y.target_name = t.table_name
                join pg_catalog.pg_class c
                  on c.relnamespace = n.oid
                 and c.relname = coalesce(x.target_name,
                                          case when y.source_id is null then t.table_name end)
               where s.source_id = t.source_id and s.source_schema = t.schema_name)))
