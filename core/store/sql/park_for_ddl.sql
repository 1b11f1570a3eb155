-- Park tables that a statement concerns, and return them; one that is parked already stays as it is.
with parked as (
    insert into replication.parked_table
           (source_id, schema_name, table_name, kind, reason, group_id)
    select %(source)s, w.schema_name, w.table_name, 'ddl', %(reason)s, %(group)s
      from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)
        on conflict do nothing
    returning source_id, schema_name, table_name, reason)
insert into replication.parked_history
       (source, schema_name, table_name, action, change_count, reason)
select s.name, p.schema_name, p.table_name, 'park', 0, p.reason
  from parked p join replication.source s using (source_id)
returning schema_name::text, table_name::text
