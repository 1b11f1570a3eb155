-- Everything about the tables of some schemas that a copy must carry over, as text.
with wanted (oid, name) as (
    select c.oid, format('%s.%s', n.nspname, c.relname)
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any (%(schemas)s) and c.relkind in ('r', 'p') and c.relpersistence = 'p'
)
select 'table' as kind, w.name,
       concat_ws(' ', c.relkind, c.relreplident, pg_get_partkeydef(c.oid),
                 pg_get_expr(c.relpartbound, c.oid), obj_description(c.oid, 'pg_class'),
                 (select string_agg(inhparent::regclass::text, ',' order by inhseqno)
                    from pg_inherits where inhrelid = c.oid)) as detail
  from wanted w join pg_class c using (oid)
union all
select 'column', format('%s.%s', w.name, a.attname),
       concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                 a.attgenerated, pg_get_expr(d.adbin, d.adrelid), l.collname,
                 a.attinhcount, a.attislocal, col_description(a.attrelid, a.attnum))
  from wanted w
  join pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_collation l on l.oid = a.attcollation and l.collname <> 'default'
union all
select 'constraint', format('%s.%s', w.name, k.conname),
       concat_ws(' ', pg_get_constraintdef(k.oid), k.convalidated,
                 obj_description(k.oid, 'pg_constraint'))
  from wanted w join pg_constraint k on k.conrelid = w.oid
union all
select 'index', i.indexrelid::regclass::text,
       concat_ws(' ', pg_get_indexdef(i.indexrelid), i.indisreplident, i.indisvalid)
  from wanted w join pg_index i on i.indrelid = w.oid
 where i.indisunique or i.indisexclusion
union all
select 'sequence', format('%s.%s', s.schemaname, s.sequencename),
       concat_ws(' ', s.data_type, s.start_value, s.increment_by, s.last_value,
                 pg_get_serial_sequence('pg_catalog.pg_class', 'oid'))
  from pg_sequences s where s.schemaname = any (%(schemas)s)
union all
select 'type', t.oid::regtype::text,
       concat_ws(' ', t.typtype, t.typnotnull, t.typdefault,
                 case when t.typtype = 'd' then format_type(t.typbasetype, t.typtypmod) end,
                 (select string_agg(e.enumlabel, ',' order by e.enumsortorder)
                    from pg_enum e where e.enumtypid = t.oid),
                 (select string_agg(concat_ws(' ', pg_get_constraintdef(k.oid),
                                      obj_description(k.oid, 'pg_constraint')),
                            ',' order by k.conname)
                    from pg_constraint k where k.contypid = t.oid),
                 obj_description(t.oid, 'pg_type'))
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
 where n.nspname = any (%(schemas)s) and t.typtype in ('e', 'd', 'r', 'm')
   and t.typname not in ('unused', 'only_for_function')
union all
select 'function', p.oid::regprocedure::text,
       concat_ws(' ', p.provolatile, p.prolang, p.prorettype::regtype,
                 obj_description(p.oid, 'pg_proc'))
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where n.nspname = any (%(schemas)s) and p.prokind = 'f'
   and p.proname in ('twice', 'searching', 'next_code')
union all
select 'operator comment', o.oid::regoperator::text, obj_description(o.oid, 'pg_operator')
  from pg_operator o join pg_namespace n on n.oid = o.oprnamespace
 where n.nspname = any (%(schemas)s) and obj_description(o.oid, 'pg_operator') is not null
union all
select 'statistics', format('%s.%s', n.nspname, x.stxname),
       concat_ws(' ', pg_get_statisticsobjdef(x.oid), x.stxstattarget,
                 obj_description(x.oid, 'pg_statistic_ext'))
  from pg_statistic_ext x join pg_namespace n on n.oid = x.stxnamespace
 where n.nspname = any (%(schemas)s)
 order by 1, 2, 3
