-- Tables that the target never had can be copied in chunks: out of sight until all of it is there.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.resync
    -- chunked, for the first time: what the copy is called in its schema until it is whole. Chunks
    -- and changes go there; null: the table has its own name.
    add column hidden_name    name,
    -- chunked: the snapshot of the first chunk, which all of them contain, and a position after it.
    add column first_snapshot pg_snapshot,
    add column first_lsn      pg_lsn;
