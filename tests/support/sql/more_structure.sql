-- What DDL may change besides the tables themselves.
select 'plain index' as kind, n.nspname || '.' || x.relname as name, pg_get_indexdef(x.oid) as detail
  from pg_index i
  join pg_class x on x.oid = i.indexrelid
  join pg_namespace n on n.oid = x.relnamespace
 where n.nspname = any (%(schemas)s) and not i.indisunique
union all
select 'index comment', n.nspname || '.' || x.relname, obj_description(x.oid, 'pg_class')
  from pg_class x join pg_namespace n on n.oid = x.relnamespace
 where n.nspname = any (%(schemas)s) and x.relkind in ('i', 'I', 'S')
   and obj_description(x.oid, 'pg_class') is not null
union all
select 'composite', n.nspname || '.' || c.relname,
       (select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                          order by a.attnum)
          from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = any (%(schemas)s) and c.relkind = 'c'
union all
select 'sequence settings', s.schemaname || '.' || s.sequencename,
       concat_ws(' ', s.min_value, s.max_value, s.cycle, s.cache_size,
                 (select d.refobjid::regclass || ' ' || d.refobjsubid from pg_depend d
                   where d.objid = format('%%I.%%I', s.schemaname, s.sequencename)::regclass
                     and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
                     and d.refclassid = 'pg_class'::regclass))
  from pg_sequences s where s.schemaname = any (%(schemas)s)
union all
select 'schema', n.nspname, obj_description(n.oid, 'pg_namespace')
  from pg_namespace n where n.nspname = any (%(schemas)s)
union all
select 'options', n.nspname || '.' || c.relname, c.reloptions::text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = any (%(schemas)s) and c.relkind in ('r', 'p') and c.reloptions is not null
union all
select 'column options', n.nspname || '.' || c.relname || '.' || a.attname,
       -- Options named pg_... are the server's own: newer minors keep a version of the column there.
       concat_ws(' ', a.attstorage, a.attcompression, a.attstattarget,
                 (select array_agg(o.option_name || '=' || o.option_value order by o.option_name)
                    from pg_options_to_table(a.attoptions) o
                   where not starts_with(o.option_name, 'pg_')))
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = any (%(schemas)s) and c.relkind in ('r', 'p') and a.attnum > 0
   and not a.attisdropped
union all
select 'collation', n.nspname || '.' || l.collname, concat_ws(' ', l.collprovider, l.collcollate)
  from pg_collation l join pg_namespace n on n.oid = l.collnamespace
 where n.nspname = any (%(schemas)s)
