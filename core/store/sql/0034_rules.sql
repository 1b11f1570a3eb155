-- By which rules columns are masked: on their way through the receiver, and in copies under way.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.source add column rules jsonb;
comment on column replication.source.rules is
    'rules of the receiver that runs, or ran last, or of the copy that began, without salts; null: none';

alter table replication.resync add column rules text;
comment on column replication.resync.rules is
    'the masks that its rows are copied with, as a fingerprint; null: none';
