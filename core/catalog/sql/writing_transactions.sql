-- Every transaction that has a number now, with who it is of: each locks its own number.
-- One that is not here has ended, and is visible in every snapshot that is taken from now on.
select l.transactionid::text as xid, l.pid, p.gid
  from pg_locks l
  left join pg_prepared_xacts p on l.pid is null and p.transaction = l.transactionid
 where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
   and l.pid is distinct from pg_backend_pid()
