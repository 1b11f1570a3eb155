-- What has to be known of a source before pg_upgrade makes another server of it.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.source add column server_version integer;
comment on column replication.source.server_version is
    'server_version_num of the server that was received last; null: not known';

alter table replication.receive_progress add column shutdown_lsn pg_lsn;
comment on column replication.receive_progress.shutdown_lsn is
    'the source shut down in good order when all of it was received, up to here; null: it did not,'
    ' or was started since';
