-- How long a payload was when it was written, so that one that was cut or edited is seen before
-- anything of its transaction is applied; the server knows its length without reading it.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.raw_messages
    -- Null where the source's encoding is another one, and in rows that an older pgrepl wrote.
    add column payload_bytes integer;
