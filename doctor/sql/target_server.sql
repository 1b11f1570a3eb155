-- One row: what the target server is and allows, seen as the role that pgrepl uses.
select current_setting('server_version_num')::integer                 as version_num,
       pg_is_in_recovery()
           or current_setting('default_transaction_read_only')::boolean as is_read_only,
       current_database()                                             as dbname,
       (select system_identifier from pg_control_system())            as system_identifier,
       current_user                                                   as role,
       has_database_privilege(current_database(), 'CREATE')           as may_create,
       has_parameter_privilege('session_replication_role', 'SET')     as may_set_replica_role,
       (select 'lz4' = any (enumvals) from pg_settings
         where name = 'default_toast_compression')                    as has_lz4,
       current_setting('server_encoding')                             as encoding,
       -- PostgreSQL 18 counts origins by a setting of their own
       coalesce(current_setting('max_active_replication_origins', true),
                current_setting('max_replication_slots'))::integer    as max_origins,
       array(select roname from pg_replication_origin)                as origins,
       current_setting('max_locks_per_transaction')::integer          as locks_per_transaction,
       current_setting('max_connections')::integer
           + current_setting('max_prepared_transactions')::integer    as lock_holders,
       -- over a socket, from the same machine, or encrypted
       inet_client_addr() is null or inet_client_addr() = inet_server_addr()
           or exists (select from pg_stat_ssl where pid = pg_backend_pid() and ssl)
           or exists (select from pg_stat_gssapi where pid = pg_backend_pid() and encrypted)
                                                                      as is_private,
       array(select nspname::text from pg_namespace)                  as schemas,
       array(select extname::text from pg_extension)                  as installed_extensions,
       array(select name::text from pg_available_extensions)          as available_extensions
