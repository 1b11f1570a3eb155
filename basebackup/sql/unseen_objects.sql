-- What pg_dump does not show of single schemas, so that a copy can name it as skipped. The reason
-- is null for what belongs to the database; what patterns select has the name of its root.
select 'event trigger' as kind, evtname::text as name, null as reason, null as root_schema,
       null as root_name
  from pg_event_trigger e
 where not exists (select from pg_depend d where d.classid = 'pg_event_trigger'::regclass
                      and d.objid = e.oid and d.deptype = 'e')
   -- pgrepl's own, see pgrepl ddl install
   and e.evtname !~ '^pgrepl_.*_[01]$'
union all
select 'cast', format('(%s as %s)', castsource::regtype, casttarget::regtype), null, null, null
  from pg_cast c
 where c.oid >= 16384
   and not exists (select from pg_depend d where d.classid = 'pg_cast'::regclass
                      and d.objid = c.oid and d.deptype in ('e', 'i'))
union all
-- of these it shows those in the schemas of the copy
select 'foreign table', format('%s.%s', n.nspname, c.relname), 'its rows are elsewhere',
       coalesce(rn.nspname, n.nspname)::text, coalesce(rc.relname, c.relname)::text
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class rc on rc.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = rc.relnamespace
 where c.relkind = 'f'
   and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass
                      and d.objid = c.oid and d.deptype = 'e')
union all
select 'large objects', format('%s in all', count(*)), 'logical decoding carries none', null, null
  from pg_largeobject_metadata
having count(*) > 0
union all
select 'publication', pubname::text, null, null, null from pg_publication
union all
select 'subscription', subname::text, null, null, null from pg_subscription
 where subdbid = (select oid from pg_database where datname = current_database())
 order by 1, 2
