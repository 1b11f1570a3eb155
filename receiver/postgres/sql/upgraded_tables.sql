-- Tables by their names: which they are here, whether they were written since the server began to
-- count, and whether they are empty.
-- A partitioned table counts as empty never: its partitions do.
select t.schema_name                              as schema,
       t.table_name                               as name,
       c.oid::bigint                              as oid,
       coalesce(w.written, 0) > 0                 as is_written,
       c.relkind = 'r' and coalesce(w.size, 0) = 0 as is_empty
  from unnest(%(schemas)s::text[], %(names)s::text[]) as t (schema_name, table_name)
  left join pg_namespace n on n.nspname::text = t.schema_name
  left join pg_class c on c.relnamespace = n.oid and c.relname::text = t.table_name
                      and c.relkind in ('r', 'p')
  left join lateral (
       select sum(pg_stat_get_tuples_inserted(l.oid) + pg_stat_get_tuples_updated(l.oid)
                  + pg_stat_get_tuples_deleted(l.oid)) as written,
              sum(pg_relation_size(l.oid))            as size
         -- of a partitioned table what is not asked for by its own name
         from (select c.oid
                union
               select p.relid
                 from pg_partition_tree(c.oid) p
                 join pg_class q on q.oid = p.relid
                 join pg_namespace m on m.oid = q.relnamespace
                where (m.nspname::text, q.relname::text) not in
                      (select * from unnest(%(schemas)s::text[], %(names)s::text[]))) as l (oid)
       ) w on c.oid is not null
