-- A checksum of each payload of the spool, so that one that was changed is never read as another.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.raw_messages
    -- Null in rows that an older pgrepl wrote.
    add column payload_crc integer;

comment on column replication.raw_messages.payload_crc is
    'CRC-32 of the payload, as zlib computes it, in two''s complement; replay and export compare it'
    ' before they read the payload.';
