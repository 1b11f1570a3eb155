-- What must hold on the source before streaming may begin.
select pg_encoding_to_char(d.encoding)                       as encoding,
       pg_is_in_recovery()                                   as is_standby,
       case when not pg_is_in_recovery() then pg_current_wal_flush_lsn() end as flush_lsn,
       (select setting::integer / 1000.0 from pg_settings where name = 'wal_sender_timeout')
                                                             as wal_sender_timeout_s,
       s.plugin                                              as slot_plugin,
       s.database::text                                      as slot_dbname,
       s.confirmed_flush_lsn,
       s.restart_lsn,
       s.wal_status,
       -- before PostgreSQL 17 there is no such column
       (to_jsonb(s) ->> 'failover')::boolean                 as is_failover
  from pg_database d
  left join pg_replication_slots s on s.slot_name = %(slot)s
 where d.datname = current_database()
