-- Tables of which a consumer does not have everything: changes of them never came to the spool.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

create table replication.consumer_gap (
    source_id     integer     not null,
    consumer_name text        not null,
    schema_name   text        not null,
    table_name    text        not null,
    reason        text        not null,
    noted_at      timestamptz not null default pg_catalog.now(),
    primary key (source_id, consumer_name, schema_name, table_name),
    foreign key (source_id, consumer_name) references replication.consumer (source_id, name)
        on delete cascade
);

comment on table replication.consumer_gap is
    'Tables of which a reader of the spool does not have everything: their rows changed without a'
    ' change in the spool. It is over when the reader starts over with the rows that there are.';
