-- Sequences whose value the role may not read, in the schemas given: those of the tables given, and
-- those of no table; what belongs to an extension or to another table is not replicated.
select n.nspname as schema, c.relname as sequence
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'S'
   and c.relpersistence <> 't'
   and n.nspname = any (%(schemas)s)
   and not (has_schema_privilege(n.oid, 'USAGE') and has_sequence_privilege(c.oid, 'SELECT'))
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid
                      and (d.deptype = 'e'
                           or d.deptype in ('a', 'i') and d.refclassid = 'pg_class'::regclass
                              and d.refobjid <> all (%(tables)s::oid[])))
 order by n.nspname, c.relname
