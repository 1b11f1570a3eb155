-- Mark those of a run's tables whose parts are all copied as ready.
update replication.source_table t set state = 'ready', row_count = p.row_count,
 byte_count = p.byte_count, seconds = p.seconds, copied_at = now()
 from (select t.schema_name, t.table_name,
              coalesce(sum(p.row_count), 0) as row_count,
              coalesce(sum(p.byte_count), 0) as byte_count,
              coalesce(sum(p.seconds), 0) as seconds
         from replication.source_table t
         join unnest(%(schemas)s::name[], %(names)s::name[]) as w (schema_name, table_name)
        using (schema_name, table_name)
         left join replication.copy_part p using (source_id, schema_name, table_name)
        where t.source_id = %(source)s and t.state = 'copying'
        group by 1, 2
        -- A partitioned table has no parts: it is ready at once.
       having count(*) filter (where p.part_id is not null and p.row_count is null) = 0) p
 where t.source_id = %(source)s and t.state = 'copying'
 and t.schema_name = p.schema_name and t.table_name = p.table_name
