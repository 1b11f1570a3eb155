-- The extensions that the tables given need: everything their columns, defaults, constraints and
-- indexes depend on, however far away, that is a member of an extension.
with recursive
member (classid, objid, extension) as (
    select d.classid, d.objid, e.extname
      from pg_depend d
      join pg_extension e on e.oid = d.refobjid
     where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
),
needed (classid, objid) as (
    select 'pg_class'::regclass::oid, t.oid
      from unnest(%(tables)s::oid[]) as t (oid)
     union
    -- an index of a constraint depends on the constraint, not on the table
    select 'pg_class'::regclass::oid, i.indexrelid
      from pg_index i
     where i.indrelid = any (%(tables)s::oid[])
     union
    -- what hangs on a table: defaults and constraints
    select d.classid, d.objid
      from unnest(%(tables)s::oid[]) as t (oid)
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid
     where d.classid in ('pg_attrdef'::regclass, 'pg_constraint'::regclass)
       and d.deptype in ('a', 'i')
     union
    -- what those need in turn, but not the other end of a foreign key to another table
    select d.refclassid, d.refobjid
      from needed n
      join pg_depend d on d.classid = n.classid and d.objid = n.objid
     where d.deptype in ('n', 'a', 'i')
       and d.refclassid <> 'pg_namespace'::regclass
       and not exists (select from pg_class c
                        where d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid
                          and c.relkind in ('r', 'p') and c.oid <> all (%(tables)s::oid[]))
)
select distinct m.extension
  from needed
  join member m using (classid, objid)
 where m.extension <> 'plpgsql'
 order by 1
