-- The slot of this name, in whatever database it is.
select plugin, database as dbname, active as is_active, wal_status,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_lsn() end, restart_lsn)::bigint as held_bytes
  from pg_replication_slots
 where slot_name = %(slot)s
