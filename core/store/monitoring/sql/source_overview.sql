-- One row a source: what the target knows of it, but for lists.
select s.source_id, s.name, s.slot, s.dbname, s.system_identifier, s.timeline, s.state,
       s.consistent_point, s.created_at,
       r.last_seq, r.received_lsn, r.commit_at, r.updated_at as received_at,
       coalesce(r.transaction_count, 0)                           as transaction_count,
       coalesce(r.change_count, 0)                                as received_change_count,
       coalesce(r.serial_transaction_count, 0)                    as serial_transaction_count,
       coalesce(r.serial_change_count, 0)                         as serial_change_count,
       -- Whether the received LSN is the end of the newest segment in the spool. If not, there was
       -- nothing to receive last, or all that was is applied.
       coalesce(r.received_lsn = newest.last_lsn, false)          as ends_in_changes,
       o.roname is not null                                       as has_origin,
       case when o.roname is not null
             and has_function_privilege('pg_replication_origin_progress(text, boolean)', 'execute')
            then pg_replication_origin_progress(o.roname, false) end as origin_lsn,
       a.applied_lsn,
       waiting.first_lsn                                          as waiting_lsn,
       waiting.first_commit_at                                    as waiting_since,
       spool.segment_count, spool.change_count, spool.byte_count, spool.oldest_commit_at,
       published.at                                               as published_at,
       published.lsn                                              as published_lsn,
       recent.bytes_per_s                                         as applied_bytes_per_s,
       (select count(*) from replication.source_table t
         where t.source_id = s.source_id and t.state = 'ready')   as ready_count
  from replication.source s
  left join replication.receive_progress r using (source_id)
  left join pg_replication_origin o on o.roname = s.slot
 cross join lateral (
       select coalesce(min(p.applied_seq), 0)                     as applied_seq,
              coalesce(min(p.applied_lsn), s.consistent_point)    as applied_lsn
         from replication.shard_progress p
        where p.source_id = s.source_id) a
  left join lateral (
       select m.first_lsn, m.first_commit_at
         from replication.raw_messages m
        where m.source_id = s.source_id and m.seq > a.applied_seq
        order by m.seq limit 1) waiting on true
  left join lateral (
       select m.last_lsn
         from replication.raw_messages m
        where m.source_id = s.source_id and m.seq = r.last_seq limit 1) newest on true
 cross join lateral (
       select count(distinct m.seq)                               as segment_count,
              coalesce(sum(m.change_count), 0)::bigint            as change_count,
              -- As the rows take it up: compressed, and without reading it.
              coalesce(sum(pg_column_size(m.payload)), 0)::bigint as byte_count,
              min(m.first_commit_at)                              as oldest_commit_at
         from replication.raw_messages m
        where m.source_id = s.source_id) spool
  left join lateral (
       select b.at, b.lsn
         from replication.binding b
        where b.source_id = s.source_id order by b.at desc limit 1) published on true
 cross join lateral (
       select (max(b.lsn) - min(b.lsn))::float8
              / nullif(extract(epoch from max(b.at) - min(b.at)), 0)::float8 as bytes_per_s
         from replication.binding b
        where b.source_id = s.source_id and b.at > now() - interval '1 minute') recent
 where s.name = any (%(names)s) or s.name <> all (%(configured)s::text[])
