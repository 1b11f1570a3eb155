-- Names that relations and types have in some schemas: no two of a schema can have the same one.
-- Of tables also the root that they are selected by, and columns elsewhere that are of their row type.
select n.nspname::text                       as schema,
       c.relname::text                       as name,
       c.relkind in ('r', 'p')               as is_table,
       array[coalesce(rn.nspname, n.nspname)::text, coalesce(r.relname, c.relname)::text] as root,
       array(select distinct u.relname || '.' || a.attname
               from pg_attribute a
               join pg_class u on u.oid = a.attrelid
               join pg_type t on t.oid = a.atttypid
               left join pg_type e on e.oid = t.typelem
              where c.reltype <> 0 and c.reltype in (t.oid, e.oid, t.typbasetype)
                and not a.attisdropped) as users
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class r on r.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = r.relnamespace
 where n.nspname = any (%(schemas)s::text[]) and c.relkind not in ('t', 'f')
union all
select n.nspname::text, t.typname::text, false, array[n.nspname::text, t.typname::text], '{}'
  from pg_type t
  join pg_namespace n on n.oid = t.typnamespace
 where n.nspname = any (%(schemas)s::text[]) and t.typtype in ('d', 'e', 'r', 'm')
 order by 1, 2
