-- How far the copy of each table is, with what is being written at this moment.
select t.schema_name, t.table_name, t.state = 'ready' as is_ready,
 coalesce(sum(p.size_bytes), 0)::bigint as size_bytes,
 coalesce(sum(p.size_bytes) filter (where p.row_count is not null), 0)::bigint
   as done_bytes,
 coalesce(max(t.row_count), sum(p.row_count), 0)::bigint + coalesce(max(r.row_count), 0)
   as row_count,
 coalesce(max(t.byte_count), sum(p.byte_count), 0)::bigint
   + coalesce(max(r.byte_count), 0) as byte_count,
 coalesce(max(t.seconds), sum(p.seconds), 0)::float8 as seconds
 from replication.source_table t
 left join replication.copy_part p using (source_id, schema_name, table_name)
 left join (select s.source_schema, coalesce(x.table_name, c.relname) as table_name,
                   sum(g.tuples_processed)::bigint as row_count,
                   sum(g.bytes_processed)::bigint as byte_count
              from pg_stat_progress_copy g
              join pg_class c on c.oid = g.relid
              join pg_namespace n on n.oid = c.relnamespace
              join replication.target_schema s on s.target_schema = n.nspname
              left join replication.target_table x
                     on x.source_id = s.source_id and x.schema_name = s.source_schema
                    and x.target_name = c.relname
             where s.source_id = %(source)s and g.command = 'COPY FROM'
               and g.datname = current_database()
             group by 1, 2) r
   on r.source_schema = t.schema_name and r.table_name = t.table_name
   and t.state = 'copying'
 where t.source_id = %(source)s group by 1, 2, 3 order by 1, 2
