-- The next segments of a source's spool, in order; as many as one batch can have.
select seq, kind,
       min(first_lsn)                         as first_lsn,
       max(last_lsn)                          as last_lsn,
       min(first_commit_at)                   as first_commit_at,
       max(last_commit_at)                    as last_commit_at,
       sum(change_count)::bigint              as change_count,
       array_agg(distinct bucket::integer)    as buckets,
       count(*)                               as part_count,
       max(part) + 1                          as written_count,
       -- older rows do not say which is the last
       count(is_last) = 0 or bool_or(is_last) as has_end,
       -- the length is known without reading the payload
       coalesce(bool_and(octet_length(payload) = payload_bytes), true) as is_sound
  from replication.raw_messages
 where source_id = %(source_id)s and seq > %(from_seq)s and seq <= %(from_seq)s + %(limit)s
 group by seq, kind
 order by seq
