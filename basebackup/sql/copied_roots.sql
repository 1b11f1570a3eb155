-- What to analyze of some tables of the target: each itself, or the root that it is a partition of.
-- A root that others made elsewhere is not ours to analyze.
select distinct coalesce(rn.nspname, n.nspname)::text, coalesce(rc.relname, c.relname)::text
  from unnest(%(schemas)s::text[], %(names)s::text[]) w (schema_name, table_name)
  join pg_namespace n on n.nspname = w.schema_name
  join pg_class c on c.relnamespace = n.oid and c.relname = w.table_name
  left join (pg_class rc join pg_namespace rn
             on rn.oid = rc.relnamespace and rn.nspname = any (%(ours)s::text[]))
    on rc.oid = pg_partition_root(c.oid)
 order by 1, 2
