-- What parts of a table a task applied in sessions beside its own.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- The rows of a table with very many changes are dealt to several sessions by a hash of their key.
-- All but one of them commit just before the one that moves the shard and deletes these rows. Rows
-- that are left say what is not to be applied again when the task died in between.

create table replication.applied_slice (
    source_id   integer  not null references replication.source on delete cascade,
    shard       smallint not null,
    schema_name name     not null,
    table_name  name     not null,
    slice       smallint not null,
    slice_count smallint not null,
    -- Where the shard stood, and where it is going.
    from_seq    bigint   not null,
    to_seq      bigint   not null,
    primary key (source_id, shard, schema_name, table_name, slice),
    check (slice > 0 and slice < slice_count and from_seq < to_seq)
);

comment on table replication.applied_slice is
    'Parts of tables that are applied ahead of their shard: there for a moment, or after a crash.';

-- A table that was copied again has nothing of them.
create function replication.forget_slices() returns trigger language plpgsql as $$
begin
    delete from replication.applied_slice
     where source_id = old.source_id and schema_name = old.schema_name
       and table_name = old.table_name;
    return null;
end $$;

create trigger forget_slices
    after update of state, start_lsn, start_snapshot or delete on replication.source_table
    for each row execute function replication.forget_slices();
alter table replication.source_table enable always trigger forget_slices;
