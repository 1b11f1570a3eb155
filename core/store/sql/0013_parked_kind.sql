-- Why a table is parked, for the programs: its reason is a sentence for people.

alter table replication.parked_table
    add column kind text not null default 'failed' check (kind in ('failed', 'resync'));

-- So a resync was recognised until now: by the words it writes, as long as no retry replaced them.
update replication.parked_table set kind = 'resync'
 where reason ~ '^resync(: |$)' and sqlstate is null and retry_count = 0;

comment on column replication.parked_table.kind is
    'Who parked the table: "failed" replay, or a retry after it, which could not apply its changes;'
    ' "resync" pgrepl resync, or replay by itself, which copies the table again.';
