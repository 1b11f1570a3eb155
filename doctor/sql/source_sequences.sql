-- Sequences whose value the role may not read, in the schemas given.
select n.nspname as schema, c.relname as sequence
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'S'
   and c.relpersistence <> 't'
   and n.nspname = any (%(schemas)s)
   and not (has_schema_privilege(n.oid, 'USAGE') and has_sequence_privilege(c.oid, 'SELECT'))
 order by n.nspname, c.relname
