-- What must hold on the source before streaming may begin, besides its slot.
select pg_encoding_to_char(d.encoding)                       as encoding,
       pg_is_in_recovery()                                   as is_standby,
       case when not pg_is_in_recovery() then pg_current_wal_flush_lsn() end as flush_lsn,
       -- Not from pg_settings, which reads all settings for one.
       extract(epoch from current_setting('wal_sender_timeout')::interval)
                                                             as wal_sender_timeout_s,
       -- before PostgreSQL 17 there is no such setting
       coalesce(current_setting('synchronized_standby_slots', true), '') <> ''
                                                             as awaits_standbys
  from pg_database d
 where d.datname = current_database()
