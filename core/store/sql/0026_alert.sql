-- What somebody was told of, so that a restart does not tell it again.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by whoever holds the lock "history": replay, or pgrepl monitor.

create table replication.alert (
    -- By name: the end of an alert is told also when its source is dropped.
    source   text        not null,
    kind     text        not null,
    -- The table, for kinds that are about one; else empty.
    subject  text        not null,
    since    timestamptz not null,
    message  text        not null,
    -- Null: it does not last long enough yet, or nobody could be told.
    told_at  timestamptz,
    primary key (source, kind, subject)
);

comment on table replication.alert is
    'Alerts that are not over: the rows of [alerts] in pgrepl.toml that hold now.';
