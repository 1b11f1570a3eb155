-- Copies of a source that are not called like their tables, those of some tables, and those with
-- some OIDs that have the names of their tables. oid null: the target has no such table.
with recursive wanted as (
    select schema_name, table_name
      from replication.target_table where source_id = %(source_id)s
    union
    select schema_name, table_name
      from replication.source_table
      join unnest(%(schemas)s::name[], %(names)s::name[]) as w (schema_name, table_name)
     using (schema_name, table_name)
     where source_id = %(source_id)s
    union
    select t.schema_name, t.table_name
      from unnest(%(oids)s::oid[]) as w (oid)
      join pg_class c using (oid)
      join pg_namespace n on n.oid = c.relnamespace
      join replication.target_schema s
        on s.source_id = %(source_id)s and s.target_schema = n.nspname
      join replication.source_table t
        on t.source_id = s.source_id and t.schema_name = s.source_schema
       and t.table_name = c.relname
), copies as (
    select w.schema_name, w.table_name, s.target_schema, c.oid,
           coalesce(x.target_name, w.table_name) as name, x.target_name is not null as is_named
      from wanted w
      left join replication.target_schema s
             on s.source_id = %(source_id)s and s.source_schema = w.schema_name
      left join replication.target_table x
             on x.source_id = %(source_id)s
            and x.schema_name = w.schema_name and x.table_name = w.table_name
      -- what is called like the table is not its copy where it is that of another one
      left join replication.target_table y
             on y.source_id = %(source_id)s
            and y.schema_name = w.schema_name and y.target_name = w.table_name
      left join pg_namespace n on n.nspname = s.target_schema
      left join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p')
                          and c.relname = coalesce(x.target_name,
                                                   case when y.source_id is null
                                                        then w.table_name end)
), family (first, oid) as (
    select oid, oid from copies where is_named and oid is not null
    union
    select f.first, r.oid
      from family f
      join pg_inherits i on f.oid in (i.inhparent, i.inhrelid)
     cross join lateral (values (i.inhparent), (i.inhrelid)) as r (oid)
)
select k.schema_name::text, k.table_name::text, k.target_schema::text, k.oid::bigint, k.name::text,
       array(select c.relname::text from family f join pg_class c on c.oid = f.oid
              where f.first = k.oid
             union
             select o.table_name::text from family f join copies o on o.oid = f.oid
              where f.first = k.oid) as family
  from copies k
 order by 1, 2
