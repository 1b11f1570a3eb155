-- Functions of some names on the target, and whether they belong to an extension.
select n.nspname::text     as schema,
       p.proname::text     as name,
       p.provolatile::text as volatility,
       exists (select from pg_catalog.pg_depend d
                where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid
                  and d.deptype = 'e') as is_member
  from pg_catalog.pg_proc p
  join pg_catalog.pg_namespace n on n.oid = p.pronamespace
 where p.proname = any (%(names)s::text[])
