-- Which row of a segment was written last, so that its absence is seen: the rows before it are
-- counted by their own numbers.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.raw_messages
    -- Null in rows that an older pgrepl wrote.
    add column is_last boolean;
