-- Tables in the schemas that pgrepl made for a source.
select c.oid::regclass::text as shown, n.nspname::text as schema, c.relname::text as name
  from replication.target_schema s
  join pg_namespace n on n.nspname = s.target_schema
  join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p', 'f')
 where s.source_id = %(source)s
   -- not what a resync is making
   and c.relname !~ '^pgrepl_shadow_[0-9]+$'
 order by 1
