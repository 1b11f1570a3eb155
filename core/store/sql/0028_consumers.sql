-- Who reads the spool besides replay: each has a position of its own, and the spool is kept for it.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by pgrepl export; replay lets go of one that reads no more.

create table replication.consumer (
    source_id   integer     not null references replication.source on delete cascade,
    name        text        not null,
    -- Tells it from an earlier one of the same name.
    id          uuid        not null default pg_catalog.gen_random_uuid(),
    kind        text        not null check (kind in ('kafka', 'files')),
    -- Where it writes, and how: what another run of it must agree with.
    destination text        not null,
    options     jsonb       not null,
    -- starting: nothing is written yet. lost: the spool was not kept for it any longer.
    state       text        not null check (state in ('starting', 'active', 'lost')),
    -- The last segment that it has passed, and the position after it on the source.
    seq         bigint      not null,
    lsn         pg_lsn      not null,
    -- What it has to know of what came before: the last transaction.
    memory      jsonb       not null default '{}',
    -- Its tables, as they are at its position.
    tables      jsonb       not null default '[]',
    -- What it is about to have written: seq, lsn, memory, tables where they changed, and what the
    -- destination needs to tell whether that was done, or to do it.
    prepared    jsonb,
    -- For how long the spool is kept for it while it does not move.
    keep        interval    not null,
    -- When it last moved, or had nothing to read.
    moved_at    timestamptz not null default pg_catalog.now(),
    created_at  timestamptz not null default pg_catalog.now(),
    lost_at     timestamptz,
    primary key (source_id, name),
    check ((state = 'lost') = (lost_at is not null))
);

comment on table replication.consumer is
    'Who reads the spool besides replay, and how far each is. The spool is kept until each of them'
    ' has passed, or has not moved for as long as its column "keep" says.';
