-- The beginning of pgrepl's state on the target: which version of this schema it is, which sources
-- and tables flow in, and which schemas of the target are pgrepl's own.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
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
    source_id         integer     generated always as identity primary key,
    name              text        not null unique,
    -- The replication origin on this server has the same name.
    slot              name        not null unique,
    dbname            name        not null,
    -- These two tell a source restored or replaced from the one that was copied.
    system_identifier bigint      not null,
    timeline          integer     not null,
    -- creating: before the slot is made. copying: slot and snapshot are there, tables arrive.
    -- streaming: all tables are copied and the origin stands at the consistent point; only now may
    -- a receiver start. Set by basebackup alone, in this order.
    state             text        not null default 'creating'
                      check (state in ('creating', 'copying', 'streaming')),
    -- Where the slot began: transactions that committed before it are in the copy.
    consistent_point  pg_lsn,
    created_at        timestamptz not null default pg_catalog.now(),
    check (state = 'creating' or consistent_point is not null)
);

comment on table replication.source is 'The sources that flow into this database.';

create table replication.target_schema (
    target_schema name    primary key,
    source_id     integer not null references replication.source on delete cascade,
    source_schema name    not null,
    unique (source_id, source_schema)
);

comment on table replication.target_schema is
    'The schemas that pgrepl made here. It touches no other.';

create table replication.source_table (
    source_id      integer not null references replication.source on delete cascade,
    schema_name    name    not null,
    table_name     name    not null,
    -- pending, copying: the copy is not whole. ready: the copy is whole, changes may be applied.
    state          text    not null default 'pending'
                   check (state in ('pending', 'copying', 'ready')),
    -- Where the copy began. Either transactions whose commit LSN lies before start_lsn are in it,
    -- or, when start_snapshot is set, exactly the transactions visible in that snapshot.
    start_lsn      pg_lsn,
    start_snapshot pg_snapshot,
    -- Set when changes of the table were lost or cannot be told; says why. Null: all is well.
    resync_reason  text,
    primary key (source_id, schema_name, table_name),
    check (state <> 'ready' or start_lsn is not null)
);

comment on table replication.source_table is
    'The replicated tables by their names on the source: whether they are copied, and from where on'
    ' changes apply.';
