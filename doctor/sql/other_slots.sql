-- The logical slots of this database that are named like pgrepl's and that nobody reads now.
select slot_name::text as name, plugin::text,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_lsn() end, restart_lsn)::bigint as held_bytes
  from pg_replication_slots
 where database = current_database() and slot_name like 'pgrepl%%' and slot_name <> %(slot)s
   and not active and not temporary
 order by 1
