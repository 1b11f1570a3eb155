-- What depends on the objects in some schemas and is itself elsewhere: CASCADE would take it along.
select pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) as dependent
  from pg_catalog.pg_depend d
  left join pg_catalog.pg_rewrite w
         on d.classid = 'pg_catalog.pg_rewrite'::regclass and w.oid = d.objid
  left join pg_catalog.pg_constraint k
         on d.classid = 'pg_catalog.pg_constraint'::regclass and k.oid = d.objid
  left join pg_catalog.pg_attrdef f
         on d.classid = 'pg_catalog.pg_attrdef'::regclass and f.oid = d.objid
  left join pg_catalog.pg_class c
         on c.oid = coalesce(w.ev_class, nullif(k.conrelid, 0), f.adrelid,
                             case when d.classid = 'pg_catalog.pg_class'::regclass
                                  then d.objid end)
  left join pg_catalog.pg_proc p
         on d.classid = 'pg_catalog.pg_proc'::regclass and p.oid = d.objid
  left join pg_catalog.pg_type t
         on t.oid = coalesce(nullif(k.contypid, 0),
                             case when d.classid = 'pg_catalog.pg_type'::regclass
                                  then d.objid end)
  join pg_catalog.pg_namespace n
         on n.oid = coalesce(c.relnamespace, p.pronamespace, t.typnamespace)
 where (d.refclassid, d.refobjid) in (
       select 'pg_catalog.pg_class'::regclass::oid, oid from pg_catalog.pg_class
        where relnamespace = any (%(schemas)s::regnamespace[])
        union all
       select 'pg_catalog.pg_type'::regclass::oid, oid from pg_catalog.pg_type
        where typnamespace = any (%(schemas)s::regnamespace[])
        union all
       select 'pg_catalog.pg_proc'::regclass::oid, oid from pg_catalog.pg_proc
        where pronamespace = any (%(schemas)s::regnamespace[]))
   and d.deptype in ('n', 'a')
   and n.oid <> all (%(schemas)s::regnamespace[])
   and n.nspname !~ '^pg_toast'
