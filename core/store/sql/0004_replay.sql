-- How far the spool is applied, and what could not be.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by pgrepl replay, one replayer per target, and by pgrepl parked.

create table replication.shard_progress (
    source_id   integer     not null references replication.source on delete cascade,
    shard       smallint    not null,
    -- Into how many shards the buckets were dealt: shard = bucket % shard_count. The same for all
    -- rows of a source; the replayer changes it only while all of them stand at one segment.
    shard_count smallint    not null check (shard_count between 1 and 64),
    -- The newest segment that this shard has applied. It moves from the segment a task was told to
    -- the last one of its batch, in the transaction that applies the changes: the fence.
    applied_seq bigint      not null,
    -- The end of that segment; before the first one, the slot's consistent point.
    applied_lsn pg_lsn      not null,
    updated_at  timestamptz not null default pg_catalog.now(),
    primary key (source_id, shard),
    check (shard between 0 and shard_count - 1)
)
with (fillfactor = 10);

comment on table replication.shard_progress is
    'How far each shard has applied the spool of each source.';

create table replication.binding (
    source_id integer     not null references replication.source on delete cascade,
    -- The target's clock, or a microsecond after the binding before where the clock stood back.
    at        timestamptz not null,
    -- The end of a source transaction, or a position that no transaction stands before.
    lsn       pg_lsn      not null,
    primary key (source_id, at),
    unique (source_id, lsn)
);

comment on table replication.binding is
    'From the time "at" on, the target showed the source as it was at "lsn", until the next one.';

create view replication.progress as
select s.name as source, b.at, b.lsn
  from replication.binding b
  join replication.source s using (source_id);

comment on view replication.progress is
    'Which source LSN the target showed from which time on; published when every shard passed it.';

create table replication.parked_table (
    source_id   integer     not null references replication.source on delete cascade,
    schema_name name        not null,
    table_name  name        not null,
    parked_at   timestamptz not null default pg_catalog.now(),
    -- PostgreSQL's condition, or pgrepl's own words where the server saw nothing wrong.
    sqlstate    text,
    reason      text        not null,
    -- How often pgrepl parked retry was tried since.
    retry_count integer     not null default 0,
    primary key (source_id, schema_name, table_name)
);

comment on table replication.parked_table is
    'Tables whose changes could not be applied, by their names on the source. Their changes wait in'
    ' replication.parked_message, in order, until pgrepl parked retry or skip.';

create table replication.parked_message (
    source_id       integer     not null,
    schema_name     name        not null,
    table_name      name        not null,
    -- Where it stood in the spool.
    seq             bigint      not null,
    part            integer     not null,
    -- A row of the spool may be cut in the middle of a transaction that DDL or TRUNCATE cut.
    piece           integer     not null,
    first_lsn       pg_lsn      not null,
    last_lsn        pg_lsn      not null,
    last_commit_at  timestamptz not null,
    change_count    integer     not null check (change_count > 0),
    -- As in the spool, but lines of this table only.
    payload         text        compression lz4 not null,
    primary key (source_id, schema_name, table_name, seq, part, piece),
    foreign key (source_id, schema_name, table_name)
        references replication.parked_table on delete cascade
);

comment on table replication.parked_message is
    'The changes of parked tables: read in order of seq, part, piece they are one stream.';

create table replication.parked_history (
    entry        bigint      generated always as identity primary key,
    at           timestamptz not null default pg_catalog.clock_timestamp(),
    role         name        not null default session_user,
    source       text        not null,
    schema_name  name        not null,
    table_name   name        not null,
    action       text        not null check (action in ('park', 'retry', 'skip')),
    change_count bigint      not null,
    last_lsn     pg_lsn,
    reason       text
);

comment on table replication.parked_history is
    'Who parked, applied or skipped which changes, and when.';

create table replication.conflict (
    source_id     integer     not null references replication.source on delete cascade,
    schema_name   name        not null,
    table_name    name        not null,
    -- Rows that an UPDATE or DELETE did not find, and rows that stood where an INSERT went.
    missing_count bigint      not null default 0,
    extra_count   bigint      not null default 0,
    last_at       timestamptz not null default pg_catalog.now(),
    primary key (source_id, schema_name, table_name)
);

comment on table replication.conflict is
    'Rows of the target that were not as the source''s changes expect: somebody wrote there.';

create table replication.failure (
    source_id integer     not null references replication.source on delete cascade,
    -- receive, replay
    stage     text        not null,
    at        timestamptz not null default pg_catalog.now(),
    message   text        not null,
    hint      text,
    primary key (source_id, stage)
);

comment on table replication.failure is
    'What last went wrong with a source, in each stage; removed when the stage goes on.';
