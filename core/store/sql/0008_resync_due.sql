-- Tables that pgrepl replay copies again by itself: DDL left their rows different from the source's.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- Written by pgrepl replay; a pgrepl resync of the table removes the row as well.

create table replication.resync_due (
    source_id     integer     not null,
    schema_name   name        not null,
    table_name    name        not null,
    reason        text        not null,
    -- When the DDL was applied: tables of one transaction are copied together, and a mark that was
    -- renewed while they were copied is told from the old one.
    marked_at     timestamptz not null default pg_catalog.now(),
    -- How often the copy failed since, and how the last time.
    attempt_count integer     not null default 0,
    error         text,
    primary key (source_id, schema_name, table_name),
    foreign key (source_id, schema_name, table_name)
        references replication.source_table on update cascade on delete cascade
);

comment on table replication.resync_due is
    'Tables that wait to be copied again by pgrepl replay itself, by their names on the source.';
