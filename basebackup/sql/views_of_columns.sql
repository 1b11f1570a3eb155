-- The views that show some columns of tables, each with one of them.
select r.ev_class::bigint as view_oid,
       min(n.nspname || '.' || c.relname || '.' || a.attname) as column_name
  from unnest(%(tables)s::oid[], %(columns)s::text[]) as w (table_oid, column_name)
  join pg_class c on c.oid = w.table_oid
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attname = w.column_name
                     and a.attnum > 0 and not a.attisdropped
  join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
                  and d.refobjsubid = a.attnum and d.classid = 'pg_rewrite'::regclass
  join pg_rewrite r on r.oid = d.objid
 group by r.ev_class
