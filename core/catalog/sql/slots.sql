-- Replication slots: the one of a name, in whatever database it is, or all logical ones of this
-- database.
select s.slot_name::text                                 as name,
       s.plugin::text,
       s.database::text                                  as dbname,
       coalesce(s.database = current_database(), false)  as is_here,
       s.temporary                                       as is_temporary,
       s.active                                          as is_active,
       s.active_pid,
       s.wal_status,
       s.safe_wal_size                                   as safe_bytes,
       s.restart_lsn,
       s.confirmed_flush_lsn,
       pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                            else pg_current_wal_lsn() end, s.restart_lsn)::bigint as held_bytes,
       -- before PostgreSQL 17 there are no such columns
       (to_jsonb(s) ->> 'failover')::boolean             as is_failover,
       to_jsonb(s) ->> 'invalidation_reason'             as lost_by
  from pg_replication_slots s
 where case when %(slot)s::text is null then s.database = current_database()
            else s.slot_name = %(slot)s end
 order by 1
