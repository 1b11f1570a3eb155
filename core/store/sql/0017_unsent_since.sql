-- After a crash or a reset the statistics of a source count from 0 again, which may be what was recorded.
alter table replication.source_table add column unsent_since timestamptz;
comment on column replication.source_table.unsent_since is
    'since when the source had counted what is in unsent_changes; null: not known yet';
