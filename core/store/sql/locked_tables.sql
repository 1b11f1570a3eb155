-- The tables that wait for a lock of another session, and for how long they have.
select p.source_id, s.name as source, p.schema_name::text as schema, p.table_name::text as "table",
       t.target_schema::text as target_schema,
       coalesce(x.target_name, p.table_name)::text as target_name, p.reason, p.group_id,
       extract(epoch from clock_timestamp() - p.parked_at)::float8 as seconds
  from replication.parked_table p
  join replication.source s using (source_id)
  left join replication.target_schema t
         on t.source_id = p.source_id and t.source_schema = p.schema_name
  left join replication.target_table x
         on x.source_id = p.source_id and x.schema_name = p.schema_name
        and x.table_name = p.table_name
 where p.kind = 'locked' and p.source_id = any (%s)
 order by p.parked_at, 2, 3, 4
