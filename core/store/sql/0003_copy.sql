-- What a copy of a source has still to do, so that one that was interrupted goes on from here.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.source_table
    -- A fingerprint of the columns when the table was made here: a copy goes on only while the
    -- source's table still has it.
    add column definition text,
    add column row_count  bigint,
    add column byte_count bigint,
    add column seconds    double precision,
    add column copied_at  timestamptz;

create table replication.copy_part (
    part_id      bigint  generated always as identity primary key,
    -- The run that planned it. A task of an earlier run, which has another snapshot, finds nothing.
    run_id       uuid    not null,
    source_id    integer not null,
    schema_name  name    not null,
    table_name   name    not null,
    -- The blocks of the table on the source, from the first to before the end; null: no limit.
    first_block  bigint,
    end_block    bigint,
    size_bytes   bigint  not null,
    -- Null as long as it is not copied. A task that copies a part holds its row locked.
    row_count    bigint,
    byte_count   bigint,
    seconds      double precision,
    -- Why it could not be copied in this run.
    error        text,
    foreign key (source_id, schema_name, table_name)
        references replication.source_table on delete cascade
);

create index on replication.copy_part (source_id, schema_name, table_name);

comment on table replication.copy_part is
    'Parts of tables that a basebackup copies, each in one transaction with its row here.';

create table replication.copy_step (
    source_id   integer not null references replication.source on delete cascade,
    step        integer not null,
    -- In this order: key, attach, property, foreign_key, validate, valid_foreign_key.
    phase       text    not null,
    -- What it locks, by its name on the source.
    schema_name name    not null,
    table_name  name    not null,
    statement   text    not null,
    is_done     boolean not null default false,
    primary key (source_id, step)
);

comment on table replication.copy_step is
    'Statements that a basebackup runs after the data, each in one transaction with its row here.';

create table replication.left_out (
    source_id integer not null references replication.source on delete cascade,
    kind      text    not null,
    name      text    not null,
    reason    text    not null
);

comment on table replication.left_out is
    'What a source has and its copy has not, by name and with the reason.';
