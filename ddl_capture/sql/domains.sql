-- The domains that some types are or are made of, however deep, with their checks and defaults; those of
-- some schemas. Printed under search_path = pg_catalog.
with recursive made_of (oid) as (
    select pg_catalog.unnest(%(types)s::oid[])
     union
    select x.oid
      from made_of m
      join pg_catalog.pg_type t on t.oid = m.oid
     cross join lateral (
           select t.typbasetype
            union all
           select t.typelem
            union all
           select r.rngsubtype from pg_catalog.pg_range r
            where t.oid in (r.rngtypid, r.rngmultitypid)
            union all
           select a.atttypid from pg_catalog.pg_attribute a
            where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) x (oid)
     where x.oid <> 0)
select n.nspname::text as schema,
       t.typname::text as name,
       pg_catalog.format_type(t.typbasetype, t.typtypmod) as base,
       coalesce(k.conname, '')::text as check_name,
       pg_catalog.pg_get_expr(k.conbin, 0) as check_expression,
       pg_catalog.pg_get_expr(t.typdefaultbin, 0) as default_expression
  from made_of m
  join pg_catalog.pg_type t on t.oid = m.oid and t.typtype = 'd'
  join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  left join pg_catalog.pg_constraint k on k.contypid = t.oid and k.contype = 'c'
 where n.nspname = any (%(schemas)s::text[])
   and (k.oid is not null or t.typdefaultbin is not null)
