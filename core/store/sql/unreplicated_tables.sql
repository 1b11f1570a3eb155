-- Tables in the schemas that pgrepl made for a source, but that it does not replicate.
select c.oid::regclass::text
  from replication.target_schema s
  join pg_namespace n on n.nspname = s.target_schema
  join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p', 'f')
 where s.source_id = %(source)s
   -- not what a resync is making
   and c.relname !~ '^pgrepl_shadow_[0-9]+$'
   and not exists (select from replication.source_table t
                    where t.source_id = s.source_id and t.schema_name = s.source_schema
                      and t.table_name = c.relname)
 order by 1
