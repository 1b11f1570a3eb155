-- What rests on code of a source, and was not made on the target for that reason: see trust_code.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

create table replication.skipped_code (
    source_id   integer     not null references replication.source on delete cascade,
    -- check, default, generated column, index, exclusion constraint, statistics, foreign key,
    -- partition key, domain check, domain default, range type, view, materialized view.
    kind        text        not null,
    -- By their names on the source. The schema and the table, domain, type or view; and the
    -- constraint, column, index or statistics of it, else empty.
    schema_name name        not null,
    table_name  name        not null,
    name        name        not null,
    -- As it is on the source.
    definition  text,
    reason      text        not null,
    skipped_at  timestamptz not null default now(),
    primary key (source_id, kind, schema_name, table_name, name)
);

comment on table replication.skipped_code is
    'What calls code of a source and is not on the target: a copy needs values, not code.';
