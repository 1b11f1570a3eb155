-- Types, collations and sequences in some schemas that DDL may use one day, though no replicated
-- table does so now: those that need nothing but one another. One that calls a function, or is of
-- an extension's making, could not be made without more than a copy brings.
with recursive
candidate (classid, objid) as (
    select 'pg_type'::regclass::oid, t.oid
      from pg_type t
      join pg_namespace n on n.oid = t.typnamespace
     where n.nspname = any (%(schemas)s) and t.typtype in ('d', 'e', 'r')
     union all
    select 'pg_class'::regclass, c.oid
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any (%(schemas)s) and c.relkind in ('c', 'S') and c.relpersistence = 'p'
     union all
    select 'pg_collation'::regclass, l.oid
      from pg_collation l
      join pg_namespace n on n.oid = l.collnamespace
     where n.nspname = any (%(schemas)s)
),
needed (root_classid, root, classid, objid) as (
    select classid, objid, classid, objid from candidate
     union
    select n.root_classid, n.root, x.classid, x.objid
      from needed n
     cross join lateral (
           select d.refclassid as classid, d.refobjid as objid
             from pg_depend d
            where d.classid = n.classid and d.objid = n.objid and d.deptype in ('n', 'a', 'i', 'e')
              and d.refclassid <> 'pg_namespace'::regclass
            union all
           -- the constraints of a domain
           select d.classid, d.objid
             from pg_depend d
            where n.classid = 'pg_type'::regclass and d.refclassid = n.classid
              and d.refobjid = n.objid and d.classid = 'pg_constraint'::regclass
              and d.deptype = 'a'
            union all
           -- the columns of a composite type
           select 'pg_class'::regclass, y.typrelid
             from pg_type y
            where n.classid = 'pg_type'::regclass and y.oid = n.objid and y.typrelid <> 0) x
),
spare (classid, objid) as (
    select n.root_classid, n.root
      from needed n
      left join pg_type t on n.classid = 'pg_type'::regclass and t.oid = n.objid
      left join pg_class c on n.classid = 'pg_class'::regclass and c.oid = n.objid
      left join pg_collation l on n.classid = 'pg_collation'::regclass and l.oid = n.objid
      left join pg_namespace s
             on s.oid = coalesce(t.typnamespace, c.relnamespace, l.collnamespace)
     group by 1, 2
    having bool_and(case
               when n.classid = 'pg_constraint'::regclass then true
               when t.oid is not null then s.nspname = any (%(schemas)s)
                    and (t.typtype <> 'b' or t.typcategory = 'A')
               when c.oid is not null then s.nspname = any (%(schemas)s) and c.relkind in ('c', 'S')
               else l.oid is not null and s.nspname = any (%(schemas)s) end)
)
select o.classid::regclass::text                                        as catalog,
       o.objid::bigint                                                  as oid,
       n.nspname::text                                                  as schema,
       coalesce(t.typname, c.relname, l.collname)::text                 as name,
       '{}'::text[]                                                     as arguments,
       c.relkind::text                                                  as relation_kind,
       false                                                            as is_evaluated,
       null::text                                                       as extension
  from spare o
  left join pg_type t on o.classid = 'pg_type'::regclass and t.oid = o.objid
  left join pg_class c on o.classid = 'pg_class'::regclass and c.oid = o.objid
  left join pg_collation l on o.classid = 'pg_collation'::regclass and l.oid = o.objid
  join pg_namespace n on n.oid = coalesce(t.typnamespace, c.relnamespace, l.collnamespace)
