-- Transactions that have written and are still open, in any database: a new slot waits for them.
-- pg_locks shows them to all users; who they are is shown to pg_read_all_stats and to themselves.
select l.pid, a.usename as role, a.datname as dbname, null as gid,
       extract(epoch from clock_timestamp() - a.xact_start)::integer as seconds
  from (select distinct pid from pg_locks
         where locktype = 'transactionid' and mode = 'ExclusiveLock' and granted
           and pid is not null) l
  left join pg_stat_activity a using (pid)
 where l.pid <> pg_backend_pid()
union all
select null, p.owner, p.database, p.gid,
       extract(epoch from clock_timestamp() - p.prepared)::integer
  from pg_prepared_xacts p
 order by seconds desc nulls last
