-- The next segments of a source's spool, in order; as many as one batch can have.
with buckets as (
    select seq, kind, bucket::integer         as bucket,
           min(first_lsn)                     as first_lsn,
           max(last_lsn)                      as last_lsn,
           min(first_commit_at)               as first_commit_at,
           max(last_commit_at)                as last_commit_at,
           sum(change_count)                  as change_count,
           count(*)                           as part_count,
           max(part) + 1                      as written_count,
           count(is_last)                     as said_count,
           bool_or(is_last)                   as has_last,
           -- the length is known without reading the payload
           bool_and(octet_length(payload) = payload_bytes) as is_sound
      from replication.raw_messages
     where source_id = %(source_id)s and seq > %(from_seq)s and seq <= %(from_seq)s + %(limit)s
     group by seq, kind, bucket
)
select seq, kind,
       min(first_lsn)                               as first_lsn,
       max(last_lsn)                                as last_lsn,
       min(first_commit_at)                         as first_commit_at,
       max(last_commit_at)                          as last_commit_at,
       sum(change_count)::bigint                    as change_count,
       array_agg(bucket order by bucket)            as buckets,
       array_agg(change_count order by bucket)      as bucket_changes,
       sum(part_count)::bigint                      as part_count,
       max(written_count)                           as written_count,
       -- older rows do not say which is the last
       sum(said_count) = 0 or bool_or(has_last)     as has_end,
       coalesce(bool_and(is_sound), true)           as is_sound
  from buckets
 group by seq, kind
 order by seq
