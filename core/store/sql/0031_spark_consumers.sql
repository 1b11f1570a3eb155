-- Streams of Spark read the spool too.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.consumer
    drop constraint consumer_kind_check,
    add constraint consumer_kind_check check (kind in ('kafka', 'files', 'spark'));
