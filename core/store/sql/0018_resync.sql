-- Tables that are being copied, again or for the first time, while streaming goes on.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by pgrepl resync and by replay, which copies what is due by itself.

create table replication.resync (
    resync_id      bigint      generated always as identity primary key,
    source_id      integer     not null references replication.source on delete cascade,
    schema_name    name        not null,
    table_name     name        not null,
    -- Which relation of the source it is.
    source_oid     bigint      not null,
    way            text        not null check (way in ('whole', 'chunked')),
    -- Whether the target has no copy of the table yet.
    is_first       boolean     not null,
    -- requested: set by who asks; nothing of the table is touched yet.
    -- copying: set by the resync. whole: rows go into the shadow. chunked: chunks go into the table.
    -- copied: set by the resync. whole: the shadow has all rows that the snapshot sees.
    -- chunked: all chunks are in the stream.
    -- catching up: set by the resync. whole: the table has those rows, in one transaction with its
    -- state in replication.source_table, and what waited is being applied.
    -- Done, or cancelled, the row goes.
    state          text        not null default 'requested'
                   check (state in ('requested', 'copying', 'copied', 'catching up')),
    -- How the table was before, which is what it is again after a cancel.
    state_before   text,
    reason_before  text,
    requested_at   timestamptz not null default pg_catalog.now(),
    requested_by   name        not null default session_user,
    started_at     timestamptz,
    updated_at     timestamptz not null default pg_catalog.clock_timestamp(),
    -- whole: under which snapshot it is copied, and a position read after it: nothing that the
    -- snapshot sees committed beyond it. chunked: of the last chunk.
    snapshot       pg_snapshot,
    lsn            pg_lsn,
    -- Bytes a second; null: no limit.
    max_rate       bigint      check (max_rate > 0),
    -- A person asked for it to end; who copies the table looks here about once a second.
    is_cancelled   boolean     not null default false,
    row_count      bigint      not null default 0,
    byte_count     bigint      not null default 0,
    chunk_count    bigint      not null default 0,
    -- What is expected of them; null: not known yet.
    row_estimate   bigint,
    byte_estimate  bigint,
    chunk_estimate bigint,
    -- chunked: the key of the last row of the last chunk, as text in the order of the key's columns.
    last_key       text[],
    -- Why the last attempt failed; null while one is under way.
    error          text,
    unique (source_id, schema_name, table_name)
);

comment on table replication.resync is
    'Tables that are being copied while streaming goes on, by their names on the source.';
