-- Sources that are no databases: topics, and files. Where each of their partitions is, which
-- position of the source that is, and records that could not be read.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by pgrepl receive; a partition of a folder is a file.

create table replication.stream_partition (
    source_id   integer     not null references replication.source on delete cascade,
    topic       text        not null,
    partition   integer     not null,
    -- Of the topic, or the beginning of the file, when it was first seen: one made anew is another.
    incarnation text        not null,
    -- The offset of the first record that is not in the spool. It moves in the transaction that
    -- writes the spool, from where the receiver found it: the fence.
    next_offset bigint      not null,
    -- What tells records that came before; pgrepl.decoding.debezium says what it holds.
    state       jsonb       not null default '{}',
    updated_at  timestamptz not null default pg_catalog.now(),
    primary key (source_id, topic, partition)
)
with (fillfactor = 50);

comment on table replication.stream_partition is
    'How far each partition of a topic, or each file, is received.';

create table replication.stream_position (
    source_id   integer not null references replication.source on delete cascade,
    -- The position of the source: the sum of its offsets.
    lsn         pg_lsn  not null,
    topic       text    not null,
    partition   integer not null,
    next_offset bigint  not null,
    -- Of the database that Debezium read: the end of the last transaction before the position.
    source_lsn  pg_lsn,
    primary key (source_id, topic, partition, lsn)
);

comment on table replication.stream_position is
    'Which offsets a position of a source stands for: of those partitions that moved with it.';

create table replication.parked_record (
    source_id     integer     not null references replication.source on delete cascade,
    topic         text        not null,
    partition     integer     not null,
    record_offset bigint      not null,
    parked_at     timestamptz not null default pg_catalog.now(),
    -- Why it could not be read, without any value of it.
    reason        text        not null,
    key           bytea,
    value         bytea,
    primary key (source_id, topic, partition, record_offset)
);

comment on table replication.parked_record is
    'Records that could not be read: nothing of them is in the spool.';

create or replace view replication.messages as
with lines as (
    select m.source_id, m.seq, m.bucket, m.part, m.kind, l.number, l.line::json as line,
           -- A begin line opens the lines of its transaction.
           pg_catalog.max(l.number) filter (where l.line like '{"action":"B"%')
               over (partition by m.source_id, m.seq, m.bucket, m.part order by l.number) as opener
      from replication.raw_messages m
     cross join lateral replication.payload_lines(m.payload, m.encoding) as l
     where m.format = 'wal2json'
)
select s.name                                  as source,
       l.seq, l.bucket, l.part, l.number, l.kind,
       (b.line ->> 'lsn')::pg_lsn              as commit_lsn,
       (b.line ->> 'nextlsn')::pg_lsn          as end_lsn,
       (b.line ->> 'timestamp')::timestamptz   as commit_at,
       (l.line ->> 'xid')::bigint              as xid,
       l.line ->> 'action'                     as action,
       l.line ->> 'schema'                     as schema_name,
       l.line ->> 'table'                      as table_name,
       l.line -> 'columns'                     as columns,
       l.line -> 'identity'                    as identity
  from lines l
  join replication.source s using (source_id)
  join lines b on (b.source_id, b.seq, b.bucket, b.part, b.number)
                = (l.source_id, l.seq, l.bucket, l.part, l.opener)
 where l.line ->> 'action' <> 'B'
 union all
select s.name, m.seq, m.bucket, m.part, c.number, m.kind, c.commit_lsn,
       -- A begin message does not say it; the end of a segment of one transaction is its own.
       case when m.kind = 'serial' and m.is_last then m.last_lsn end,
       c.commit_at, c.xid, c.action, c.schema_name, c.table_name, c.columns, c.identity
  from replication.raw_messages m
  join replication.source s using (source_id)
 cross join lateral replication.pgoutput_changes(m.payload, m.encoding) as c
 where m.format in ('pgoutput', 'upsert');

create view replication.stream_progress as
select s.name as source, b.at, b.lsn, p.topic, p.partition, p.next_offset, p.source_lsn
  from replication.binding b
  join replication.source s using (source_id)
 cross join lateral (
       select distinct on (topic, partition) topic, partition, next_offset, source_lsn
         from replication.stream_position o
        where o.source_id = b.source_id and o.lsn <= b.lsn
        order by topic, partition, o.lsn desc) p;

comment on view replication.stream_progress is
    'Which offset of each partition the target showed from which time on.';
