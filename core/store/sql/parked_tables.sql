-- The parked tables, with how much waits for each.
select p.source_id, s.name as source, p.schema_name::text as schema, p.table_name::text as "table",
       p.kind, p.parked_at, p.sqlstate, p.reason, p.retry_count,
       coalesce(m.change_count, 0)::bigint as change_count, m.first_lsn, m.last_lsn
  from replication.parked_table p
  join replication.source s using (source_id)
  left join lateral (
       select sum(w.change_count) as change_count, min(w.first_lsn) as first_lsn,
              max(w.last_lsn) as last_lsn
         from replication.parked_message w
        where (w.source_id, w.schema_name, w.table_name)
            = (p.source_id, p.schema_name, p.table_name)) m on true
 where %(source)s::text is null or s.name = %(source)s
 order by 2, 3, 4
