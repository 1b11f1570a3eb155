-- The permanent tables and sequences of a source that the role may not read, or not all rows of.
-- A partitioned table has no rows of its own; a partition is selected by the name of its root.
select n.nspname::text                        as schema,
       c.relname::text                        as name,
       coalesce(rn.nspname, n.nspname)::text  as root_schema,
       coalesce(rc.relname, c.relname)::text  as root_name,
       c.relkind = 'S'                        as is_sequence,
       current_user::text                     as role,
       f.may_use_schema, f.may_select, f.hides_rows
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class rc on rc.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = rc.relnamespace
 -- all of them are null for what was dropped meanwhile
 cross join lateral (
       select has_schema_privilege(n.oid, 'USAGE')           as may_use_schema,
              case c.relkind when 'S' then has_sequence_privilege(c.oid, 'SELECT')
                             else has_table_privilege(c.oid, 'SELECT') end as may_select,
              c.relrowsecurity and row_security_active(c.oid) as hides_rows) f
 where c.relkind in ('r', 'S')
   and c.relpersistence = 'p'
   and n.nspname !~ '^pg_'
   and n.nspname <> 'information_schema'
   and (not f.may_use_schema or not f.may_select or f.hides_rows)
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
 order by n.nspname, c.relname
