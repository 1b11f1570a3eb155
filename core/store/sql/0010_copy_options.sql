-- What a copy was asked for when it began, so that a run that goes on with it and asks for something
-- else is refused.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.source
    -- tables, exclude, indexes, views: the options of pgrepl basebackup. Null: an older pgrepl
    -- began the copy.
    add column copy_options jsonb;
