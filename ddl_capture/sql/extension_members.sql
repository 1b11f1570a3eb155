-- Types, functions, operators and the like of some of the target's extensions, by the schema they are in.
select x.extname::text as extension, n.nspname::text as schema, o.name
  from pg_catalog.pg_extension x
  join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_extension'::regclass
                             and d.refobjid = x.oid and d.deptype = 'e'
  join lateral (
       select t.typname::text, t.typnamespace from pg_catalog.pg_type t
        where d.classid = 'pg_catalog.pg_type'::regclass and t.oid = d.objid
        union all
       select p.proname::text, p.pronamespace from pg_catalog.pg_proc p
        where d.classid = 'pg_catalog.pg_proc'::regclass and p.oid = d.objid
        union all
       select o.oprname::text, o.oprnamespace from pg_catalog.pg_operator o
        where d.classid = 'pg_catalog.pg_operator'::regclass and o.oid = d.objid
        union all
       select o.opcname::text, o.opcnamespace from pg_catalog.pg_opclass o
        where d.classid = 'pg_catalog.pg_opclass'::regclass and o.oid = d.objid
        union all
       select c.relname::text, c.relnamespace from pg_catalog.pg_class c
        where d.classid = 'pg_catalog.pg_class'::regclass and c.oid = d.objid
       ) as o (name, namespace) on true
  join pg_catalog.pg_namespace n on n.oid = o.namespace
 where n.nspname <> 'pg_catalog' and x.extname = any (%(extensions)s::text[])
