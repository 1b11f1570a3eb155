-- One row: where the source stands, and the walsender that reads from its slot.
select pg_is_in_recovery()                                        as is_standby,
       case when not pg_is_in_recovery() then pg_current_wal_lsn() end as lsn,
       clock_timestamp()                                          as clock_at,
       (select system_identifier from pg_control_system())        as system_identifier,
       case when not pg_is_in_recovery()
            then ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end
                                                                  as timeline,
       r.sent_lsn,
       r.write_lsn,
       r.backend_start                                            as receiver_since,
       -- In MB; -1 is no limit.
       (select nullif(k.setting::bigint, -1) * 1048576
          from pg_settings k where k.name = 'max_slot_wal_keep_size') as keep_bytes,
       (select (w.wal_bytes
                / nullif(extract(epoch from clock_timestamp() - w.stats_reset), 0))::float8
          from pg_stat_wal w)                                     as average_wal_bytes_per_s
  from (values (true)) one (row)
  left join pg_stat_replication r on r.pid = %(receiver)s
