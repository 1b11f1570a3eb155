-- The members of extensions that have a name in a schema. is_movable: the member is where its
-- extension is, so on the target it is where the extension is there.
select x.extname::text                               as extension,
       (parse_ident(i.schema))[1]                    as schema,
       coalesce(p.proname::text, opr.oprname::text, c.relname::text, t.typname::text,
                (parse_ident(i.name, false))[1])          as name,
       (parse_ident(i.schema))[1] = n.nspname        as is_movable
  from pg_depend d
  join pg_extension x on x.oid = d.refobjid
  join pg_namespace n on n.oid = x.extnamespace
 cross join lateral pg_identify_object(d.classid, d.objid, 0) i
  left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
  left join pg_operator opr on d.classid = 'pg_operator'::regclass and opr.oid = d.objid
  left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
  left join pg_type t on d.classid = 'pg_type'::regclass and t.oid = d.objid
 where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
   and i.schema is not null and i.schema <> 'pg_catalog'
