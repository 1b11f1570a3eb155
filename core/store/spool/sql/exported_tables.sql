-- The replicated tables of a source whose changes can be handed on: their columns on the target,
-- and what is in the way of reading their rows at replay's position.
select t.schema_name::text                    as schema,
       t.table_name::text                     as table,
       t.state,
       t.start_lsn,
       t.start_snapshot::text                 as start_snapshot,
       p.kind                                 as parked_kind,
       r.resync_id is not null                as is_copied_again,
       coalesce(t.resync_reason, d.reason)    as resync_reason,
       s.target_schema::text                  as target_schema,
       c.relname::text                        as target_name,
       c.oid::bigint                          as oid,
       c.relkind::text                        as relkind,
       a.columns
  from replication.source_table t
  left join replication.parked_table p using (source_id, schema_name, table_name)
  left join replication.resync r using (source_id, schema_name, table_name)
  left join replication.resync_due d using (source_id, schema_name, table_name)
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
                 and c.relkind in ('r', 'p')
 cross join lateral (
       select coalesce(json_agg(json_build_array(
                  a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                  -- here, or on the source while it is a plain one here
                  a.attgenerated <> '' or exists (
                      select from replication.skipped_code g
                       where g.source_id = t.source_id and g.kind = 'generated column'
                         and g.schema_name = t.schema_name and g.table_name = t.table_name
                         and g.name = a.attname)) order by a.attnum), '[]') as columns
         from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) a
 where t.source_id = %s
 order by t.schema_name, t.table_name
