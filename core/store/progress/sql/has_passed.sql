-- Whether the target shows everything of a source that committed before a position: every shard
-- has passed it, or it is received and nothing that was received is left to apply.
select exists (select from replication.binding
                where source_id = %(source)s and lsn >= %(lsn)s)
    or coalesce((select min(applied_lsn) >= %(lsn)s from replication.shard_progress
                  where source_id = %(source)s), false)
    or exists (select from replication.receive_progress p
                where p.source_id = %(source)s and p.received_lsn >= %(lsn)s
                  and not exists (select from replication.raw_messages m
                                   where m.source_id = p.source_id
                                     and m.seq > coalesce((select min(s.applied_seq)
                                                             from replication.shard_progress s
                                                            where s.source_id = p.source_id), 0)))
