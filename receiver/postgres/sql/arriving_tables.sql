-- Every table whose changes can arrive, with the root it belongs to if it is a partition, and its
-- columns: those that can hold NaN or Infinity, in their order, and all.
select n.nspname                       as schema,
       c.relname                       as "table",
       coalesce(rn.nspname, n.nspname) as root_schema,
       coalesce(rc.relname, c.relname) as root_table,
       c.relkind = 'm'                 as is_materialized_view,
       coalesce(f.names, '{}')         as float_names,
       coalesce(f.not_null_names, '{}') as not_null_float_names,
       coalesce(f.all_names, '{}')     as column_names,
       named.xid                       as named_xid
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_type y on y.oid = c.reltype
  left join pg_class rc on rc.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = rc.relnamespace
  -- of its row type, which a REFRESH leaves as it is, or of its schema; one of two thousand million
  -- transactions ago looks as if it were to come
  left join lateral (
       select x.xid::text::bigint as xid
         from (values (y.xmin), (n.xmin)) x (xid)
        where age(x.xid) between 0 and 2147483646
        order by age(x.xid)
        limit 1) named on true
  left join lateral (
       select array_agg(a.attname::text order by a.attnum) filter (where is_float)     as names,
              array_agg(a.attname::text order by a.attnum) filter (where is_float and a.attnotnull)
                                                                                       as not_null_names,
              array_agg(a.attname::text)                                               as all_names
         from pg_attribute a
        cross join lateral (
              select a.atttypid in ('float4'::regtype, 'float8'::regtype, 'numeric'::regtype)) t (is_float)
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) f on true
 where c.relkind in ('r', 'p', 'm')
   and c.relpersistence <> 't'
   and n.nspname <> 'information_schema'
   and n.nspname !~ '^pg_'
