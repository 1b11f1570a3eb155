-- What proves that a transaction has not begun to commit: what its session does at this moment.
-- A session that waits for a client, for a lock or for a page of a table, that is idle inside the
-- transaction, or that has begun a statement since a time, is not writing a commit record. Nothing is
-- seen of the sessions of others without pg_read_all_stats: then nothing is proved.
select a.pid, null::text as gid
  from pg_stat_activity a
 where a.pid = any (%(pids)s::integer[])
   and (a.state in ('idle in transaction', 'idle in transaction (aborted)')
        or a.state = 'active'
           and (a.query_start > %(since)s
                or a.wait_event_type = 'Lock'
                or a.wait_event in ('ClientRead', 'PgSleep', 'DataFileRead', 'DataFileExtend',
                                    'DataFileWrite', 'DataFilePrefetch', 'BufFileRead',
                                    'BufFileWrite')))
union all
select null, p.gid
  from pg_prepared_xacts p
 where p.gid = any (%(gids)s::text[])
   -- who commits it does so in a statement of its own
   and not exists (select from pg_stat_activity a
                    where a.state is distinct from 'idle' and a.backend_type = 'client backend'
                      and a.pid <> pg_backend_pid()
                      and (a.query is null or a.query ~* 'prepared'
                           or a.query = '<insufficient privilege>'))
