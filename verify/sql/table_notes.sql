-- What replication says of a source's tables: whether they are copied, parked or need a resync.
select t.schema_name::text, t.table_name::text, t.state = 'ready' as is_ready,
       case when t.state <> 'ready' then 'not compared: it is being copied'
            when t.resync_reason is not null then 'needs a resync: ' || t.resync_reason
            when p.reason is not null then 'its changes are parked: ' || p.reason end as note
  from replication.source_table t
  left join replication.parked_table p using (source_id, schema_name, table_name)
 where t.source_id = %(source)s
