-- What pg_dump does not show of single schemas, so that a copy can name it as left out.
select 'event trigger' as kind, evtname::text as name from pg_event_trigger e
 where not exists (select from pg_depend d where d.classid = 'pg_event_trigger'::regclass
                      and d.objid = e.oid and d.deptype = 'e')
   -- pgrepl's own, see pgrepl ddl install
   and e.evtname !~ '^pgrepl_.*_[01]$'
union all
select 'cast', format('(%s as %s)', castsource::regtype, casttarget::regtype) from pg_cast c
 where c.oid >= 16384
   and not exists (select from pg_depend d where d.classid = 'pg_cast'::regclass
                      and d.objid = c.oid and d.deptype in ('e', 'i'))
union all
select 'publication', pubname::text from pg_publication
union all
select 'subscription', subname::text from pg_subscription
 where subdbid = (select oid from pg_database where datname = current_database())
 order by 1, 2
