-- The beginning of pgrepl's state on the target: which version of this schema it is, which sources
-- flow in, and which schemas of the target are pgrepl's own.
--
-- Run by pgrepl.migrations in one transaction with its row in replication.schema_version.
-- Privileges: CREATE on the database. To remove everything: pgrepl drop, for each source.

create schema replication;

comment on schema replication is
    'pgrepl: state of the replication into this database. Written by pgrepl only.';

create table replication.schema_version (
    version        integer     primary key,
    name           text        not null,
    pgrepl_version text        not null,
    applied_at     timestamptz not null default pg_catalog.now()
);

comment on table replication.schema_version is
    'One row per migration that ran; the highest version is the version of this schema.';

create table replication.source (
    source_id  integer     generated always as identity primary key,
    name       text        not null unique,
    slot       name        not null unique,
    dbname     name        not null,
    -- Tells a source restored or replaced from the one that was copied.
    system_identifier numeric(20) not null,
    created_at timestamptz not null default pg_catalog.now()
);

comment on table replication.source is
    'The sources that flow into this database. The replication origin is named like the slot.';

create table replication.target_schema (
    target_schema name    primary key,
    source_id     integer not null references replication.source on delete cascade,
    source_schema name    not null,
    unique (source_id, source_schema)
);

comment on table replication.target_schema is
    'The schemas that pgrepl made here. It touches no other.';
