-- What a server that pg_upgrade made tells of the time before its slot was made. Its statistics
-- begin with it, are written when a session ends, and are lost in a crash.
select current_setting('track_counts')::boolean                       as is_counting,
       d.stats_reset is null
         and b.stats_reset <= to_timestamp(%(born)s) + interval '10 seconds' as has_all_counts,
       coalesce(pg_stat_get_tuples_inserted(to_regclass('pgrepl.ddl_log')), 0) as ddl_count,
       (select count(*)
          from pg_stat_activity a
         where a.datid = d.datid
           and a.pid <> pg_backend_pid()
           -- autovacuum has no user; a walsender writes nothing
           and a.usesysid is not null
           and a.pid not in (select r.pid from pg_stat_get_wal_senders() r)) as session_count,
       (select count(*) from pg_prepared_xacts x where x.database = current_database())
                                                                      as prepared_count
  from pg_stat_database d, pg_stat_bgwriter b
 where d.datname = current_database()
