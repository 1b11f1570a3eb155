-- The foreign keys of the tables in some schemas that no index serves, smallest table first: an index
-- serves one when its first columns are the key's, in any order. A partitioned table cannot be
-- indexed concurrently; its partitions have the key too, and can.
select n.nspname                                                  as schema_name,
       t.relname                                                  as table_name,
       min(k.conname)                                             as constraint_name,
       (select array_agg(a.attname::text order by key.position)
          from unnest(k.conkey) with ordinality key (attnum, position)
          join pg_attribute a on a.attrelid = k.conrelid and a.attnum = key.attnum) as columns
  from pg_namespace n
  join pg_class t on t.relnamespace = n.oid and t.relkind = 'r'
  join pg_constraint k on k.conrelid = t.oid and k.contype = 'f'
 where n.nspname = any (%(schemas)s)
   and not exists (
       select from pg_index i
         join pg_class x on x.oid = i.indexrelid
         join pg_am m on m.oid = x.relam and m.amname in ('btree', 'hash')
        where i.indrelid = t.oid
          and i.indisvalid
          -- One of ours without its comment: whoever made it was killed before the end.
          and (not starts_with(x.relname, 'pgrepl_fk_') or obj_description(x.oid, 'pg_class') is not null)
          and i.indpred is null
          and i.indnkeyatts >= cardinality(k.conkey)
          and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey
          and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] <@ k.conkey)
   -- One is just being made, perhaps for a replayer that is no more.
   and not exists (
       select from pg_stat_progress_create_index p
        where p.datname = current_database() and p.relid = t.oid)
 group by n.nspname, t.relname, t.oid, k.conrelid, k.conkey
 order by pg_table_size(t.oid), n.nspname, t.relname, k.conkey
