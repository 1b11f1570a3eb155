-- A receiver is ahead of replay: a table that it marks may be one that replay is yet to make, under the
-- name of one that replay is yet to drop or rename.
alter table replication.source_table add column lost_lsn pg_lsn;
comment on column replication.source_table.lost_lsn is
    'all changes whose loss is in resync_reason committed before it; null: unknown, or none was lost';
