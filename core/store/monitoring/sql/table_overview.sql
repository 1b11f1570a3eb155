-- The tables that are not plainly well: being copied, marked for a resync, parked, or found
-- different from what the source's changes expect.
select source_id, schema_name, table_name, t.state, t.resync_reason,
       d.reason as due_reason, coalesce(d.attempt_count, 0) as due_attempts, d.error as due_error,
       copy.part_count, copy.done_count,
       p.parked_at, p.sqlstate, p.reason as parked_reason, p.kind as parked_kind,
       coalesce(kept.change_count, 0)::bigint
                                                                  as parked_changes,
       coalesce(c.missing_count, 0)                               as missing_count,
       coalesce(c.extra_count, 0)                                 as extra_count,
       r.way as resync_way, r.state as resync_state, r.error as resync_error,
       greatest(r.row_count, copy.row_count)                      as resync_rows,
       greatest(r.byte_count, copy.byte_count)                    as resync_bytes,
       r.byte_estimate                                            as resync_estimate,
       r.row_estimate                                             as resync_row_estimate,
       r.chunk_count                                              as resync_chunks,
       r.chunk_estimate                                           as resync_chunk_estimate,
       -- it ends when replay has passed its last chunk
       greatest((select max(k.lsn) from replication.resync_chunk k
                  where k.resync_id = r.resync_id)
                - (select min(s.applied_lsn) from replication.shard_progress s
                    where s.source_id = r.source_id), 0)::bigint   as resync_wal_left,
       extract(epoch from clock_timestamp() - r.started_at)::float8 as resync_seconds,
       -- by the run at work: whoever copies in chunks counts each, parts are counted by the clock
       r.rows_before as resync_rows_before, r.bytes_before as resync_bytes_before,
       extract(epoch from case when r.way = 'chunked' then r.updated_at else clock_timestamp() end
                          - r.resumed_at)::float8                  as resync_run_seconds,
       root.root_schema, root.root_name
  from replication.source_table t
  left join replication.resync_due d using (source_id, schema_name, table_name)
  full join replication.resync r using (source_id, schema_name, table_name)
  full join replication.parked_table p using (source_id, schema_name, table_name)
  full join replication.conflict c using (source_id, schema_name, table_name)
  left join lateral (
       select count(*)                                            as part_count,
              count(*) filter (where q.row_count is not null)     as done_count,
              sum(q.row_count)::bigint                            as row_count,
              sum(q.byte_count)::bigint                           as byte_count
         from replication.copy_part q
        where (q.source_id, q.schema_name, q.table_name)
            = (t.source_id, t.schema_name, t.table_name)) copy on true
  left join lateral (
       select sum(m.change_count) as change_count
         from replication.parked_message m
        where (m.source_id, m.schema_name, m.table_name)
            = (p.source_id, p.schema_name, p.table_name)) kept on true
  left join lateral (
       select rs.source_schema as root_schema,
              coalesce(rx.table_name, rc.relname)                 as root_name
         from replication.target_schema s
         join pg_namespace n on n.nspname = s.target_schema
         left join replication.target_table x
                on x.source_id = t.source_id and x.schema_name = t.schema_name
               and x.table_name = t.table_name
         -- what is called like the table is not its copy where it is that of another one
         left join replication.target_table y
                on y.source_id = t.source_id and y.schema_name = t.schema_name
               and y.target_name = t.table_name
         join pg_class k on k.relnamespace = n.oid
                        and k.relname = coalesce(x.target_name, case when y.source_id is null
                                                                     then t.table_name end)
         join pg_class rc on rc.oid = pg_partition_root(k.oid)
         join pg_namespace rn on rn.oid = rc.relnamespace
         join replication.target_schema rs
           on rs.source_id = s.source_id and rs.target_schema = rn.nspname
         left join replication.target_table rx
                on rx.source_id = s.source_id and rx.schema_name = rs.source_schema
               and rx.target_name = rc.relname
        where s.source_id = t.source_id and s.source_schema = t.schema_name) root on true
 where source_id = any (%(ids)s)
   and (t.state is distinct from 'ready' or t.resync_reason is not null
        or d.reason is not null or r.resync_id is not null
        or p.parked_at is not null or c.last_at is not null)
 order by source_id, schema_name, table_name
