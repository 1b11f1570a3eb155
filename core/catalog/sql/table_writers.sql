-- Transactions that may have changed rows of some tables: whoever has done so holds a lock to its end.
-- One that has no number yet has changed nothing.
with locks as materialized (select * from pg_locks where granted)
select distinct x.transactionid::text as xid, x.pid, p.gid
  from locks l
  join locks x on x.virtualtransaction = l.virtualtransaction
              and x.locktype = 'transactionid' and x.mode = 'ExclusiveLock'
  left join pg_prepared_xacts p on x.pid is null and p.transaction = x.transactionid
 where l.locktype = 'relation' and l.relation = any (%(tables)s::oid[])
   and l.database = (select oid from pg_database where datname = current_database())
   and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                  'AccessExclusiveLock')
   and l.pid is distinct from pg_backend_pid()
