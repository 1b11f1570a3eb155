-- What must hold on the source before streaming may begin, besides its slot.
select pg_encoding_to_char(d.encoding)                       as encoding,
       pg_is_in_recovery()                                   as is_standby,
       case when not pg_is_in_recovery() then pg_current_wal_flush_lsn() end as flush_lsn,
       (select setting::integer / 1000.0 from pg_settings where name = 'wal_sender_timeout')
                                                             as wal_sender_timeout_s
  from pg_database d
 where d.datname = current_database()
