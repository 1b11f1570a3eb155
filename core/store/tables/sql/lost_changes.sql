-- Whether a table of a source may have other rows than there because changes were not sent: it is
-- known to have lost some, or has no replica identity now, as its copy tells it. No row: it may not.
select c.relreplident = 'f'
       or exists (select from pg_index i
                   where i.indrelid = c.oid and i.indisvalid
                     and (c.relreplident = 'd' and i.indisprimary
                          or c.relreplident = 'i' and i.indisreplident)) as is_identified,
       -- Over pgoutput they are counted, and it is not known when they were.
       t.lost_lsn is not null or t.resync_reason = %(lost)s              as has_lost
  from replication.source_table t
  join replication.source o using (source_id)
  join replication.target_schema s
    on s.source_id = t.source_id and s.source_schema = t.schema_name
  join pg_namespace n on n.nspname = s.target_schema
  left join replication.target_table x
         on x.source_id = t.source_id and x.schema_name = t.schema_name
        and x.table_name = t.table_name
  -- what is called like the table is not its copy where it is that of another one
  left join replication.target_table y
         on y.source_id = t.source_id and y.schema_name = t.schema_name
        and y.target_name = t.table_name
  join pg_class c on c.relnamespace = n.oid
                 and c.relname = coalesce(x.target_name,
                                          case when y.source_id is null then t.table_name end)
 where t.source_id = %(source_id)s and t.schema_name = %(schema)s and t.table_name = %(name)s
   -- A source that is no database has no identities.
   and o.consistent_point > '0/0'
