-- What was received and applied so far, counted for who watches over it.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.

alter table replication.receive_progress
    -- Counted in the transaction that writes them to the spool, so that each counts once.
    add column transaction_count        bigint not null default 0,
    add column change_count             bigint not null default 0,
    -- Of these, the ones with DDL or TRUNCATE.
    add column serial_transaction_count bigint not null default 0,
    add column serial_change_count      bigint not null default 0;

create table replication.replay_counter (
    source_id    integer          not null references replication.source on delete cascade,
    kind         text             not null check (kind in ('parallel', 'serial')),
    batch_count  bigint           not null default 0,
    change_count bigint           not null default 0,
    seconds      double precision not null default 0,
    -- How many batches took at most so long as pgrepl.store.counters: DURATIONS_S says, each counted
    -- in one place; the last one is for all that took longer.
    durations    bigint[]         not null,
    primary key (source_id, kind)
)
-- Few rows, rewritten with each batch.
with (fillfactor = 10);

comment on table replication.replay_counter is
    'Batches that replay has applied. It is counted after the batch: one that a crash follows at once'
    ' is missing here, and only here.';
