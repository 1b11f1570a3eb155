-- The tables that foreign keys tie to some tables, by the names of their roots.
select distinct coalesce(rn.nspname, n.nspname)::text, coalesce(r.relname, c.relname)::text
  from pg_constraint k
  join pg_class c on c.oid in (k.conrelid, k.confrelid)
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class r on r.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = r.relnamespace
 where k.contype = 'f'
   and (k.conrelid = any (%(oids)s::oid[]) or k.confrelid = any (%(oids)s::oid[]))
