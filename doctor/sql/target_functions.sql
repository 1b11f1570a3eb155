-- The functions of replication origins that pgrepl calls and the role may not.
select p.oid::regprocedure::text as signature
  from pg_proc p
 where p.pronamespace = 'pg_catalog'::regnamespace
   and p.proname in ('pg_replication_origin_create', 'pg_replication_origin_drop',
                     'pg_replication_origin_oid', 'pg_replication_origin_advance',
                     'pg_replication_origin_progress', 'pg_replication_origin_session_setup',
                     'pg_replication_origin_session_reset', 'pg_replication_origin_xact_setup',
                     'pg_replication_origin_xact_reset')
   and not has_function_privilege(p.oid, 'EXECUTE')
 order by 1
