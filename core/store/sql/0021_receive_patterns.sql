-- Which tables the receiver of a source takes in: a table that its patterns do not take in has no
-- changes in the spool, and a copy of it could not be followed.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.source add column receive_patterns jsonb;
comment on column replication.source.receive_patterns is
    'tables and exclude of the receiver that runs, or ran last; null: an older pgrepl''s';
