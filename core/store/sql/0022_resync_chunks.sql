-- A table that is copied again in chunks: ranges of its key, each as one snapshot of the source
-- shows it, put into the live table between two transactions of the stream.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Whoever applies changes of such a table, or puts a chunk into it, locks its row of
-- replication.resync first: what stands here does not change under him.

alter table replication.resync
    -- chunked: the key, its columns in the order of the source's index; ranges are in that order.
    add column key_columns   text[],
    -- chunked: what the copy was like at the last chunk. Where it is another, DDL was applied.
    add column table_version text,
    -- chunked: how many rows had to be read again by their key.
    add column reread_count  bigint not null default 0;

create table replication.resync_chunk (
    resync_id bigint      not null references replication.resync on delete cascade,
    -- In the order they were put into the table; a later one sees all that an earlier one sees.
    number    bigint      not null,
    -- Keys after the first up to the last, as texts; null: no limit. Not a range: keys in
    -- replication.resync_key.
    is_range  boolean     not null,
    low       text[],
    high      text[],
    -- Which transactions it contains, and a position read after that: none of them committed beyond
    -- it. When replay has passed the position, the row goes.
    snapshot  pg_snapshot not null,
    lsn       pg_lsn      not null,
    primary key (resync_id, number)
);

comment on table replication.resync_chunk is
    'Chunks that were put into a live table, as long as changes arrive that they contain already.';

create table replication.resync_key (
    resync_id bigint not null references replication.resync on delete cascade,
    key       text[] not null,
    -- The chunk that has it; null: it is still to be read.
    number    bigint
);

create index on replication.resync_key (resync_id);

comment on table replication.resync_key is
    'Rows that are read again by their key: a change needed a value that the copy may not have.';

create table replication.resync_xid (
    resync_id bigint   not null references replication.resync on delete cascade,
    xids      bigint[] not null
);

create index on replication.resync_xid (resync_id);

comment on table replication.resync_xid is
    'Transactions whose changes were applied to a table since its last chunk: the next one has to'
    ' contain them. A transaction can be in the stream before snapshots see it.';
