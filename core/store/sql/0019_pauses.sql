-- Sources and tables that a person paused: replay leaves them alone, and their changes wait.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

create table replication.paused_source (
    source_id integer     primary key references replication.source on delete cascade,
    paused_at timestamptz not null default pg_catalog.now(),
    -- Who ran the command, as user@host, and as which role of the target.
    paused_by text        not null,
    role      name        not null default session_user,
    reason    text
);

comment on table replication.paused_source is
    'Sources whose changes replay leaves in the spool, since pgrepl pause; pgrepl resume ends it.';

-- A paused table is a parked one.
alter table replication.parked_table
    drop constraint parked_table_kind_check,
    add constraint parked_table_kind_check check (kind in ('failed', 'resync', 'ddl', 'paused'));

comment on column replication.parked_table.kind is
    'Who parked the table: "failed" replay, or a retry after it, which could not apply its changes;'
    ' "ddl" replay, which could not apply DDL on it; "resync" pgrepl resync, or replay by itself,'
    ' which copies the table again; "paused" a person, with pgrepl pause.';

create table replication.pause_history (
    at          timestamptz not null default pg_catalog.now(),
    source      text        not null,
    -- Null: the whole source.
    schema_name name,
    table_name  name,
    action      text        not null check (action in ('pause', 'resume')),
    done_by     text        not null,
    role        name        not null default session_user,
    reason      text,
    check (num_nulls(schema_name, table_name) in (0, 2))
);
create index on replication.pause_history (source, at);

comment on table replication.pause_history is
    'Who paused and resumed what, and when; as old as history in pgrepl.toml says.';
