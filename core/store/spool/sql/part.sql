-- One row of the spool.
select seq, bucket, part, first_lsn, last_lsn,
       last_commit_at::varchar as last_commit_at, change_count,
       format, encoding, payload_crc, payload
  from replication.raw_messages
 where source_id = %s and seq = %s and bucket = %s and part = %s
