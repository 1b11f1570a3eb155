-- Who holds what a session of the server waits for; pid 0 is a prepared transaction.
select b.pid, a.usename::text as role, nullif(a.application_name, '') as application,
       a.state, a.xact_start as since, coalesce(a.backend_type = 'autovacuum worker', false)
       as is_autovacuum
  from unnest(pg_blocking_pids(%s)) as b (pid)
  left join pg_stat_activity a on a.pid = b.pid
 order by a.xact_start, b.pid
