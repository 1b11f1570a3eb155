-- Which relations the views of a source read, materialized ones too.
select distinct vn.nspname::text, v.relname::text, rn.nspname::text, r.relname::text
  from pg_rewrite w
  join pg_class v on v.oid = w.ev_class and v.relkind in ('v', 'm')
  join pg_namespace vn on vn.oid = v.relnamespace
  join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
                  and d.refclassid = 'pg_class'::regclass and d.refobjid <> v.oid
  join pg_class r on r.oid = d.refobjid
  join pg_namespace rn on rn.oid = r.relnamespace
 where vn.nspname !~ '^pg_' and vn.nspname <> 'information_schema'
