-- What must always hold on a target, whoever was killed when; each row is something that does not.
with source as (
    select s.source_id, s.name, r.last_seq, r.received_lsn, r.source_id is not null as is_received,
           (select roname from pg_replication_origin o where o.roname = s.slot) as origin
      from replication.source s left join replication.receive_progress r using (source_id)
), segment as (
    select m.source_id, m.seq, count(*) filter (where m.is_last) as ends,
           bool_and((m.kind = 'serial') = (m.bucket = -1)) as is_in_its_bucket,
           count(distinct m.kind) as kinds, max(m.last_lsn) as last_lsn
      from replication.raw_messages m group by m.source_id, m.seq
), applied as (
    select p.source_id, min(p.applied_seq) as least, max(p.applied_seq) as most,
           max(p.applied_lsn) as lsn, count(*) as shards, min(p.shard_count) as shard_count,
           count(distinct p.shard_count) as counts
      from replication.shard_progress p group by p.source_id
)
select name, 'the spool has segments after the last that was received'
  from source join segment using (source_id) where seq > last_seq
union all
select name, 'the spool has positions after what was received'
  from source join segment using (source_id) where last_lsn > received_lsn
union all
select name, 'the origin is not where receive_progress is'
  from source where is_received and origin is not null
   and pg_replication_origin_progress(origin, false) is distinct from received_lsn
union all
select name, 'a segment has no end, or two'
  from source join segment using (source_id) where ends <> 1
union all
select name, 'a serial segment lies in buckets, or a parallel one outside of them'
  from source join segment using (source_id) where not is_in_its_bucket or kinds <> 1
union all
select name, 'a segment that is not applied is missing from the spool'
  from source join applied using (source_id)
 where is_received and last_seq - least <> (
       select count(*) from segment g where g.source_id = source.source_id and g.seq > least)
union all
select name, 'a shard has applied what was never received'
  from source join applied using (source_id) where is_received and most > last_seq
union all
select name, 'shards are missing, or dealt in two ways'
  from source join applied using (source_id) where shards <> shard_count or counts <> 1
union all
select name, 'a position is published that is not applied'
  from source join applied using (source_id)
  join replication.binding b using (source_id) where b.lsn > applied.lsn
union all
select name, 'positions were published in another order than the source''s'
  from source join (
       select source_id, lsn < lag(lsn) over (partition by source_id order by at) as is_wrong
         from replication.binding) b using (source_id) where is_wrong
union all
select name, 'slices are noted of what the shard has passed'
  from source join replication.applied_slice a using (source_id)
  join replication.shard_progress p using (source_id, shard) where a.to_seq <= p.applied_seq;
