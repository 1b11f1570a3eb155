-- Stored generated columns of some tables: their expressions as PostgreSQL keeps them, and whether they
-- use functions or operators that are neither its own nor an extension's.
select n.nspname   as schema,
       c.relname   as "table",
       a.attname   as "column",
       d.adbin::text as tree,
       exists (select from pg_depend u
                where u.classid = 'pg_attrdef'::regclass and u.objid = d.oid
                  and u.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass)
                  and u.refobjid >= 16384
                  and not exists (select from pg_depend e
                                   where e.classid = u.refclassid and e.objid = u.refobjid
                                     and e.deptype = 'e')) as is_code
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where c.oid = any (%(tables)s) and c.relkind = 'r' and a.attgenerated = 's' and not a.attisdropped
 order by n.nspname, c.relname, a.attnum
