-- A resync of a table whose copy has other columns gives it the source's structure; and how fast a
-- resync is now.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.resync
    -- whole: a fingerprint of the structure that the copy is given together with the rows; null: it
    -- has the right one. Where the source's is another by now, the shadow is of no use any more.
    add column structure    text,
    -- When the run that is at work began, or the last one, and what was there then: pace is what
    -- came since. Between two runs nobody copies.
    add column resumed_at   timestamptz,
    add column rows_before  bigint not null default 0,
    add column bytes_before bigint not null default 0;
