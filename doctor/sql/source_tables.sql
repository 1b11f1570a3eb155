-- One row per permanent or unlogged table of the database that belongs to no extension.
-- A partition is selected by the name of its root, so both names are here.
select c.oid::bigint                                  as oid,
       n.nspname                                      as schema,
       c.relname                                      as "table",
       coalesce(rn.nspname, n.nspname)                as root_schema,
       coalesce(rc.relname, c.relname)                as root_table,
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
                                                      as has_floats
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class rc on rc.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = rc.relnamespace
 where c.relkind in ('r', 'p')
   and c.relpersistence <> 't'
   and n.nspname !~ '^pg_'
   and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
 order by n.nspname, c.relname
