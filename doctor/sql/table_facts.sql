-- What doctor asks of some tables besides what they are: identity, privileges, columns.
select c.oid::bigint                                  as oid,
       n.nspname                                      as schema,
       c.relname                                      as "table",
       c.relkind = 'p'                                as is_partitioned,
       c.relpersistence = 'u'                         as is_unlogged,
       c.relreplident::text                           as replica_identity,
       -- null: there is no primary key
       (select i.indimmediate from pg_index i
         where i.indrelid = c.oid and i.indisprimary) as primary_key_is_immediate,
       exists (select from pg_index i
                where i.indrelid = c.oid and i.indisreplident and i.indisvalid)
                                                      as has_identity_index,
       -- an index that could be the identity: unique, immediate, whole, over NOT NULL columns only
       (select min(ic.relname::text)
          from pg_index i
          join pg_class ic on ic.oid = i.indexrelid
         where i.indrelid = c.oid and i.indisunique and i.indimmediate and i.indisvalid
           and i.indpred is null and i.indexprs is null and not i.indisprimary
           and not exists (select from unnest(i.indkey[0:i.indnkeyatts - 1]) as k (attnum)
                             join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
                            where not a.attnotnull))  as identity_candidate,
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
