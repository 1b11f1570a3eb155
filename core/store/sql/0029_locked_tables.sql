-- A table that another session of the target locks waits alone, and goes on by itself.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.parked_table
    drop constraint parked_table_kind_check,
    add constraint parked_table_kind_check
        check (kind in ('failed', 'resync', 'ddl', 'paused', 'locked'));

comment on column replication.parked_table.kind is
    'Who parked the table: "failed" replay, or a retry after it, which could not apply its changes;'
    ' "ddl" replay, which could not apply DDL on it; "resync" pgrepl resync, or replay by itself,'
    ' which copies the table again; "paused" a person, with pgrepl pause; "locked" replay, until'
    ' another session of the target lets go of its lock on the table.';
