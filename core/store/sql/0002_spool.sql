-- The spool: what was received from the sources and is not applied yet.
--
-- Written by pgrepl receive, one receiver per source; read and deleted by pgrepl replay.
-- pgrepl.store.spool says what a payload holds. Privileges: those of 0001.

create table replication.raw_messages (
    source_id       integer     not null references replication.source on delete cascade,
    -- Counts the segments of a source. Its only receiver assigns it, so that the order of seq is
    -- the order of commit.
    seq             bigint      not null,
    -- Where the table hashes to: 0 to 63. A serial segment is one stream, bucket -1.
    bucket          smallint    not null check (bucket between -1 and 63),
    -- Counts the rows of a segment in the order they were written; a transaction too big for
    -- memory has many rows of one bucket.
    part            integer     not null,
    -- parallel: a run of whole transactions, any shard may apply its buckets.
    -- serial: one transaction that holds DDL or TRUNCATE, to be applied alone, in order of part.
    kind            text        not null check (kind in ('parallel', 'serial')),
    -- Of the whole segment: the commit LSN of its first transaction, the end of its last one.
    first_lsn       pg_lsn      not null,
    last_lsn        pg_lsn      not null,
    first_commit_at timestamptz not null,
    last_commit_at  timestamptz not null,
    -- Changes in this payload; its begin lines do not count.
    change_count    integer     not null check (change_count > 0),
    payload         text        compression lz4 not null,
    primary key (source_id, seq, bucket, part),
    check ((kind = 'serial') = (bucket = -1))
);

comment on table replication.raw_messages is
    'The spool: wal2json lines of received transactions, one row per bucket of a segment.';

create table replication.receive_progress (
    source_id    integer     primary key references replication.source on delete cascade,
    -- The newest segment ever written; its rows may be applied and gone.
    last_seq     bigint      not null,
    -- Every transaction that committed before it is in the spool, or was. The replication origin
    -- says the same, and both move in one transaction: where they differ, somebody meddled.
    received_lsn pg_lsn      not null,
    -- When the newest spooled transaction committed on the source.
    commit_at    timestamptz,
    updated_at   timestamptz not null default pg_catalog.now()
)
-- One row a source, rewritten with each commit: room for it on its page keeps it small.
with (fillfactor = 10);

comment on table replication.receive_progress is 'How far each source has been received.';

create table replication.table_bucket (
    source_id   integer  not null references replication.source on delete cascade,
    schema_name name     not null,
    table_name  name     not null,
    bucket      smallint not null check (bucket between 0 and 63),
    primary key (source_id, schema_name, table_name)
);

comment on table replication.table_bucket is
    'The bucket each table was put into. It may change at a serial segment only: elsewhere two'
    ' shards could apply changes of one table at once.';

create view replication.messages as
with lines as (
    select m.source_id, m.seq, m.bucket, m.part, m.kind, l.number, l.line::json as line,
           -- A begin line opens the lines of its transaction.
           pg_catalog.max(l.number) filter (where l.line like '{"action":"B"%')
               over (partition by m.source_id, m.seq, m.bucket, m.part order by l.number) as opener
      from replication.raw_messages m
     cross join lateral pg_catalog.string_to_table(m.payload, E'\n') with ordinality
           as l (line, number)
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
 where l.line ->> 'action' <> 'B';

comment on view replication.messages is
    'The spool, one change per row, for people with psql; order by source, seq, part, number.';
