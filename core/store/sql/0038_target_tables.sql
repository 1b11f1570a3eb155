-- What copies are called whose tables have another name on the source.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

create table replication.target_table (
    source_id   integer not null references replication.source on delete cascade,
    -- as on the source
    schema_name name    not null,
    table_name  name    not null,
    target_name name    not null check (target_name <> table_name),
    primary key (source_id, schema_name, table_name),
    unique (source_id, schema_name, target_name)
);

comment on table replication.target_table is
    'Copies that are not called like their tables. No row: a copy has the name of its table.';
