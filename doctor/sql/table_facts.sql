-- What doctor asks of some tables besides what they are: identity, privileges, columns.
select c.oid::bigint                                  as oid,
       n.nspname                                      as schema,
       c.relname                                      as "table",
       c.relkind = 'p'                                as is_partitioned,
       c.relpersistence = 'u'                         as is_unlogged,
       c.relreplident::text                           as replica_identity,
       has_schema_privilege(n.oid, 'USAGE')           as may_use_schema,
       has_table_privilege(c.oid, 'SELECT')           as may_select,
       row_security_active(c.oid)                     as hides_rows,
       exists (select from pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                  and a.atttypid in ('float4'::regtype, 'float8'::regtype, 'numeric'::regtype))
                                                      as has_floats,
       c.oid = any (%(append_only)s)                  as is_append_only
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.oid = any (%(tables)s)
 order by n.nspname, c.relname
