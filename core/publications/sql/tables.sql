-- Every table whose rows a publication can send, partitions each for themselves, and in which of a
-- source's two publications it is.
with sent as (
    -- From version 18 on a publication can send generated columns; one that comes is made so.
    select current_setting('server_version_num')::int >= 180000 as is_refused,
           coalesce(bool_and(to_jsonb(p) ->> 'pubgencols' = 's'),
                    current_setting('server_version_num')::int >= 180000) as generated
      from pg_publication p
     where p.pubname = %(all)s)
select c.oid::bigint                            as oid,
       n.nspname::text                          as schema,
       c.relname::text                          as name,
       coalesce(rn.nspname, n.nspname)::text    as root_schema,
       coalesce(rc.relname, c.relname)::text    as root_name,
       c.relreplident::text                     as replica_identity,
       coalesce(w.is_whole, false)                                   as is_in_all,
       not coalesce(w.is_whole, true)                                as is_limited,
       exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                where r.prrelid = c.oid and p.pubname = %(inserts)s) as is_in_inserts,
       sent.generated                           as sends_generated,
       -- from 18 on an UPDATE is refused where the whole row is the identity and not all of it is sent
       not (sent.is_refused and exists (
           select from pg_attribute a
            where a.attrelid = c.oid and not a.attisdropped
              and (a.attgenerated = 'v' or a.attgenerated = 's' and not sent.generated)))
                                                as sends_whole_row,
       pg_has_role(c.relowner, 'USAGE')         as is_owned,
       -- of rows updated and deleted since the statistics were reset, those of aborted transactions too
       pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid) as change_count
  from pg_class c
 cross join sent
  join pg_namespace n on n.oid = c.relnamespace
  -- all rows and columns are sent, unless somebody else has changed that
  left join lateral (
       select to_jsonb(r) ->> 'prqual' is null and to_jsonb(r) ->> 'prattrs' is null as is_whole
         from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
        where r.prrelid = c.oid and p.pubname = %(all)s) w on true
  left join pg_class rc on rc.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = rc.relnamespace
 where c.relkind = 'r'
   and c.relpersistence = 'p'
   and n.nspname !~ '^pg_'
   and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
 order by n.nspname, c.relname
