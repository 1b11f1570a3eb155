-- What tells whether tables are still as they were: another version of a row has another xmin.
-- No row: pgrepl does not know the table.
select w.number,
       concat_ws(';', t.state, t.start_lsn, t.start_snapshot, p.source_id is not null,
                 coalesce(r.resync_id, 0), n.oid, c.oid, c.xmin, a.columns, i.indexes, g.computed) as version
  from unnest(%(schemas)s::name[], %(names)s::name[])
       with ordinality w (schema_name, table_name, number)
  join replication.source_table t
       on t.source_id = %(source_id)s
      and t.schema_name = w.schema_name and t.table_name = w.table_name
  left join replication.parked_table p
         on p.source_id = t.source_id
        and p.schema_name = t.schema_name and p.table_name = t.table_name
  left join replication.resync r
         on r.source_id = t.source_id and r.schema_name = t.schema_name
        and r.table_name = t.table_name and r.way = 'chunked' and r.key_columns is not null
  left join replication.target_schema s
         on s.source_id = t.source_id and s.source_schema = t.schema_name
  left join replication.target_table x
         on x.source_id = t.source_id and x.schema_name = t.schema_name
        and x.table_name = t.table_name
  -- what is called like the table is not its copy where it is that of another one
  left join replication.target_table y
         on y.source_id = t.source_id and y.schema_name = t.schema_name
        and y.target_name = t.table_name
  left join pg_namespace n on n.nspname = s.target_schema
  left join pg_class c on c.relnamespace = n.oid
                      and c.relname = coalesce(r.hidden_name, x.target_name,
                                           case when y.source_id is null then t.table_name end)
                      and c.relkind in ('r', 'p')
  -- a type that is not PostgreSQL's own can be renamed without a word to its columns
  left join lateral (
       select string_agg(concat_ws(':', a.xmin, y.xmin, m.xmin), ',' order by a.attnum) as columns
         from pg_attribute a
         left join pg_type y on y.oid = a.atttypid and a.atttypid >= 16384
         left join pg_namespace m on m.oid = y.typnamespace
        where a.attrelid = c.oid and a.attnum > 0) a on true
  left join lateral (
       select string_agg(concat_ws(':', i.indexrelid, i.xmin), ',' order by i.indexrelid) as indexes
         from pg_index i where i.indrelid = c.oid) i on true
  -- a column that the source computes, and that is a plain one here
  left join lateral (
       select string_agg(concat_ws(':', g.name, g.xmin), ',' order by g.name) as computed
         from replication.skipped_code g
        where g.source_id = t.source_id and g.kind = 'generated column'
          and g.schema_name = t.schema_name and g.table_name = t.table_name) g on true
