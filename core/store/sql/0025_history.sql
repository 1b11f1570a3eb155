-- How every source fared in the last days, thinned out: for pgrepl status --since and the page.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by whoever holds the lock "history": replay, or pgrepl monitor.

create table replication.history (
    source_id        integer          not null references replication.source on delete cascade,
    -- Length of the interval: 10 for the last hour, 60 for the last day, 600 for the last 14 days. Every
    -- look is written into one interval of each, so that nothing has to be added up later.
    seconds          integer          not null check (seconds in (10, 60, 600)),
    -- Its beginning, and the newest look in it.
    at               timestamptz      not null,
    seen_at          timestamptz      not null,
    -- Whether the source answered every look, and whether its receiver was connected at each.
    is_reachable     boolean          not null,
    is_receiving     boolean          not null,
    -- The most of any look: a peak stays one. Null: unknown.
    lag_bytes        bigint,
    lag_seconds      double precision,
    held_bytes       bigint,
    spool_bytes      bigint,
    -- Of the newest look.
    source_lsn       pg_lsn,
    received_transactions bigint      not null,
    received_changes bigint           not null,
    applied_changes  bigint           not null,
    primary key (source_id, seconds, at)
);

comment on table replication.history is
    'How every source fared: at most 3,816 rows a source, whatever happens.';
