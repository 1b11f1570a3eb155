-- The tables in some schemas of which so much changed since their last ANALYZE that their
-- statistics mislead: by PostgreSQL's own count, which outlives us.
select n.nspname as schema_name, t.relname as table_name, u.n_mod_since_analyze as change_count
  from pg_namespace n
  join pg_class t on t.relnamespace = n.oid and t.relkind = 'r'
  join pg_stat_user_tables u on u.relid = t.oid
 where n.nspname = any (%(schemas)s)
   and u.n_mod_since_analyze >= greatest(%(least)s, t.reltuples * %(share)s)
 order by u.n_mod_since_analyze desc
