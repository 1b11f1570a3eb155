-- Since when a source's statistics count, as the receiver saw it last: whether they were reset while
-- nothing else was known of a table yet.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.source add column counted_since timestamptz;
comment on column replication.source.counted_since is
    'since when the source''s statistics count rows, as the receiver saw it last; null: not looked at';
