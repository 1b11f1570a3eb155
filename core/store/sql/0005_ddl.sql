-- What became of captured DDL: every statement, and those that wait for a person.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by pgrepl replay, and by pgrepl ddl edit, retry and skip.

create table replication.ddl_history (
    entry      bigint      generated always as identity primary key,
    source_id  integer     not null references replication.source on delete cascade,
    -- Where it stood: its row of pgrepl.ddl_log on the source, and its transaction.
    log_id     bigint      not null,
    commit_lsn pg_lsn      not null,
    commit_at  timestamptz not null,
    at         timestamptz not null default pg_catalog.clock_timestamp(),
    -- applied: as remapped. skipped: left out by a rule, which "reason" names. edited, discarded: a
    -- person decided so.
    outcome    text        not null
               check (outcome in ('applied', 'skipped', 'edited', 'discarded')),
    reason     text,
    tag        text        not null,
    -- Who ran it on the source, and, where a person decided, who that was on the target.
    role       text        not null,
    decided_by text,
    original   text,
    remapped   text
);

create index on replication.ddl_history (source_id, commit_lsn);

comment on table replication.ddl_history is
    'Every DDL statement that arrived from the sources, and what became of it.';

create table replication.ddl_pending (
    source_id  integer     not null references replication.source on delete cascade,
    log_id     bigint      not null,
    commit_lsn pg_lsn      not null,
    commit_at  timestamptz not null,
    stopped_at timestamptz not null default pg_catalog.clock_timestamp(),
    tag        text        not null,
    role       text        not null,
    original   text,
    remapped   text,
    error      text        not null,
    -- What a person decided, and the statement that runs instead. Null: the source waits. The row
    -- goes when its transaction is applied.
    decision   text        check (decision in ('retry', 'edit', 'skip')),
    edited     text,
    decided_by text,
    decided_at timestamptz,
    primary key (source_id, log_id),
    check ((decision is not distinct from 'edit') = (edited is not null))
);

comment on table replication.ddl_pending is
    'DDL that could not be applied: its source stands still before it. Settled by pgrepl ddl edit,'
    ' retry and skip.';
