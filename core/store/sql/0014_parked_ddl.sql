-- DDL that cannot be applied waits with its tables, in order with their changes.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.parked_table
    -- Tables that DDL waits for are worked off together; null: the table waits alone.
    add column group_id bigint,
    drop constraint parked_table_kind_check,
    add constraint parked_table_kind_check check (kind in ('failed', 'resync', 'ddl'));

comment on column replication.parked_table.kind is
    'Who parked the table: "failed" replay, or a retry after it, which could not apply its changes;'
    ' "ddl" replay, which could not apply DDL on it; "resync" pgrepl resync, or replay by itself,'
    ' which copies the table again.';

alter table replication.ddl_pending
    -- Of DDL that waits with its tables: their group, its place in the spool and among their changes
    -- (replication.parked_message), and the rows of the log. All null: the source stands still.
    add column group_id bigint,
    add column seq      bigint,
    add column part     integer,
    add column piece    integer,
    add column format   text,
    add column encoding text,
    add column payload  bytea,
    -- When it was last worked off in vain: a decision that is older has been tried.
    add column tried_at timestamptz,
    add check (num_nulls(group_id, seq, part, piece, format, encoding, payload) in (0, 7));

comment on table replication.ddl_pending is
    'DDL that could not be applied: it waits with its tables, or its source stands still before it.'
    ' Settled by pgrepl ddl edit, retry and skip.';

-- Which relation of the source it is, whatever its name: a copy of what has the name by now would be
-- one of another table. Null: not known, of copies from before and of captures of older versions.
alter table replication.source_table add column source_oid bigint;

-- Sessions that apply changes have session_replication_role = replica, in which foreign keys do not
-- cascade: what was left of tables that were worked off, renamed or dropped.
delete from replication.parked_message m
 where not exists (select from replication.parked_table p
                    where (p.source_id, p.schema_name, p.table_name)
                        = (m.source_id, m.schema_name, m.table_name));
delete from replication.resync_due d
 where not exists (select from replication.source_table t
                    where (t.source_id, t.schema_name, t.table_name)
                        = (d.source_id, d.schema_name, d.table_name));
