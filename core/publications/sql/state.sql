-- The two publications of a source, what keeps them, and what the role may do about them.
select (select coalesce(array_agg(pubname::text), '{}') from pg_publication
         where pubname in (%(all)s, %(inserts)s))                  as names,
       (select coalesce(bool_or(puballtables), false) from pg_publication
         where pubname = %(inserts)s)                              as takes_all_inserts,
       -- somebody else may have changed what they send
       (select coalesce(array_agg(pubname::text order by pubname), '{}') from pg_publication
         where pubname in (%(all)s, %(inserts)s)
           and not (pubinsert and pubtruncate and not pubviaroot
                    and (pubname = %(inserts)s or pubupdate and pubdelete)))
                                                                   as changed_names,
       (select d.description from pg_publication p
          join pg_description d on d.objoid = p.oid and d.classoid = 'pg_publication'::regclass
         where p.pubname = %(all)s)                                as comment,
       (select count(*) = 4 from pg_event_trigger
         where evtname in ('pgrepl_publications_start', 'pgrepl_publications_drop',
                           'pgrepl_publications_end', 'pgrepl_publications_joins')
           and evtenabled = 'A')                                   as is_guarded,
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'pgrepl' and c.relname = 'joined_late'
                  and has_schema_privilege(n.oid, 'USAGE')
                  and has_table_privilege(c.oid, 'SELECT'))        as may_read_notes,
       -- pg_stat_reset() resets the first one; a crash all others, pg_stat_reset_shared() only one
       greatest(pg_stat_get_db_stat_reset_time(
                    (select oid from pg_database where datname = current_database())),
                least(pg_stat_get_bgwriter_stat_reset_time(),
                      (select stats_reset from pg_stat_get_archiver()),
                      (select stats_reset from pg_stat_get_wal())))  as counted_since,
       -- of sessions in this database; one of a superuser may have its own way
       current_setting('track_counts')::boolean                     as is_counting,
       getdatabaseencoding()::text                                  as encoding,
       (select rolsuper from pg_roles where rolname = current_user) as is_superuser
