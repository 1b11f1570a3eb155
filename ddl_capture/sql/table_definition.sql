-- The structure of one table, as JSON. "rel" is its OID. The same query runs on both sides: on the
-- source after each command (it is the body of pgrepl.table_definition), on the target after the
-- command was applied there. Needs search_path = pg_catalog, so that every name is qualified.
select json_build_object(
         'oid', c.oid::bigint,
         'schema', n.nspname,
         'name', c.relname,
         'kind', c.relkind,
         'persistence', c.relpersistence,
         'identity', c.relreplident,
         'extension', exists (select from pg_depend d
                               where d.classid = 'pg_class'::regclass and d.objid = c.oid
                                 and d.deptype = 'e'),
         'partition_key', pg_get_partkeydef(c.oid),
         'bound', pg_get_expr(c.relpartbound, c.oid),
         -- What selects it: the table itself, or the root of its partitions.
         'root', (select json_build_array(rn.nspname, r.relname)
                    from pg_class r join pg_namespace rn on rn.oid = r.relnamespace
                   where r.oid = coalesce(pg_partition_root(c.oid), c.oid)),
         'parents', (select json_agg(json_build_array(pn.nspname, p.relname) order by h.inhseqno)
                       from pg_inherits h
                       join pg_class p on p.oid = h.inhparent
                       join pg_namespace pn on pn.oid = p.relnamespace
                      where h.inhrelid = c.oid and not h.inhdetachpending),
         'columns', (select json_agg(json_build_object(
                              'name', a.attname,
                              'type', format_type(a.atttypid, a.atttypmod),
                              'not_null', a.attnotnull,
                              -- From 18 on NOT NULL is a constraint with a name.
                              'not_null_name', case when a.attnotnull then
                                  (select k.conname from pg_constraint k
                                    where k.conrelid = c.oid and k.contype = 'n'
                                      and k.conkey = array[a.attnum]) end,
                              'default', case when a.attgenerated = ''
                                              then pg_get_expr(d.adbin, d.adrelid) end,
                              'generated', case when a.attgenerated <> ''
                                                then pg_get_expr(d.adbin, d.adrelid) end,
                              'identity', a.attidentity,
                              'type_default', pg_get_expr(t.typdefaultbin, 0),
                              'collation', case when a.attcollation <> t.typcollation
                                                then a.attcollation::regcollation::text end)
                              order by a.attnum)
                       from pg_attribute a
                       join pg_type t on t.oid = a.atttypid
                       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
                      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
         'constraints', (select json_agg(json_build_object(
                                  'name', k.conname,
                                  'type', k.contype,
                                  'definition', pg_get_constraintdef(k.oid),
                                  'references', case when k.confrelid <> 0 then
                                      (select json_build_array(fn.nspname, f.relname)
                                         from pg_class f
                                         join pg_namespace fn on fn.oid = f.relnamespace
                                        where f.oid = coalesce(pg_partition_root(k.confrelid),
                                                               k.confrelid)) end)
                                  order by k.conname)
                           from pg_constraint k
                          where k.conrelid = c.oid and k.contype in ('c', 'f', 'p', 'u', 'x')
                            -- What a foreign key has for single partitions is named by chance.
                            and (k.contype <> 'f' or k.conparentid = 0)),
         'unique_indexes', (select json_agg(json_build_object(
                                     'name', x.relname,
                                     'definition', pg_get_indexdef(i.indexrelid),
                                     'identity', i.indisreplident)
                                     order by x.relname)
                              from pg_index i
                              join pg_class x on x.oid = i.indexrelid
                             where i.indrelid = c.oid and i.indisunique and i.indisvalid))
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.oid = rel and c.relkind in ('r', 'p')
