-- One row: what a source server is and allows, seen as the role that pgrepl uses.
select current_setting('server_version_num')::integer            as version_num,
       pg_is_in_recovery()                                       as is_standby,
       current_database()                                        as dbname,
       (select system_identifier from pg_control_system())       as system_identifier,
       r.rolname                                                 as role,
       r.rolsuper or r.rolreplication                            as may_replicate,
       pg_has_role('pg_read_all_data', 'USAGE')                  as reads_everything,
       current_setting('wal_level')                              as wal_level,
       current_setting('max_replication_slots')::integer         as max_slots,
       (select count(*) from pg_replication_slots)::integer      as used_slots,
       current_setting('max_wal_senders')::integer               as max_wal_senders,
       (select count(*) from pg_stat_get_wal_senders())::integer as used_wal_senders,
       current_setting('server_encoding')                        as encoding,
       -- in megabytes; -1 is without limit
       (select setting::bigint from pg_settings
         where name = 'max_slot_wal_keep_size')                  as max_slot_wal_keep_mb,
       extract(epoch from current_setting('idle_replication_slot_timeout', true)::interval)::bigint
                                                                 as idle_slot_timeout_s,
       -- over a socket, from the same machine, or encrypted
       inet_client_addr() is null or inet_client_addr() = inet_server_addr()
           or exists (select from pg_stat_ssl where pid = pg_backend_pid() and ssl)
           or exists (select from pg_stat_gssapi where pid = pg_backend_pid() and encrypted)
                                                                 as is_private,
       exists (select from pg_largeobject_metadata)              as has_large_objects
  from pg_roles r
 where r.rolname = current_user
