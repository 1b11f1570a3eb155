-- Tables of sources: how each is replicated, and what its copy on the target looks like.
-- No row: pgrepl does not know the table. relkind null: the target has no such table.
select t.schema_name::text                    as schema,
       t.table_name::text                     as table,
       t.state,
       t.start_lsn,
       t.start_snapshot::text                 as start_snapshot,
       p.source_id is not null                as is_parked,
       r.resync_id is not null                as is_in_chunks,
       r.hidden_name is not null              as is_joining,
       coalesce(r.hidden_name, x.target_name, t.table_name)::text as copy_name,
       s.target_schema::text                  as target_schema,
       c.oid::bigint                          as oid,
       c.relkind::text                        as relkind,
       coalesce(a.columns, '[]')              as columns
  from replication.source_table t
  left join replication.parked_table p using (source_id, schema_name, table_name)
  -- copied in chunks, live, or out of sight if it is new
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
  left join lateral (
       select json_agg(json_build_object(
                  'name', a.attname,
                  'kind', case when a.atttypid = 'bool'::regtype then 'boolean'
                               when a.atttypid in ('int2'::regtype, 'int4'::regtype,
                                    'int8'::regtype, 'oid'::regtype)
                               then 'integer'
                               when a.atttypid in ('float4'::regtype, 'float8'::regtype,
                                    'numeric'::regtype)
                               then 'float'
                               when a.atttypid = 'bytea'::regtype then 'bytea'
                               else 'text' end,
                  'is_generated', a.attgenerated <> '',
                  -- computed by the source, and a plain one here
                  'is_computed', exists (
                      select from replication.skipped_code g
                       where g.source_id = t.source_id and g.kind = 'generated column'
                         and g.schema_name = t.schema_name and g.table_name = t.table_name
                         and g.name = a.attname),
                  'is_identity_always', a.attidentity = 'a',
                  'staging_type', b.staging_type,
                  'equality_schema', e.equality_schema,
                  'array_type', x.array_type,
                  'cast_type', x.cast_type) order by a.attnum) as columns
         from pg_attribute a
         join pg_type y on y.oid = a.atttypid
         -- the type below a domain, however deep
         left join lateral (
              with recursive base (oid, typtype, typbasetype) as (
                  select y.oid, y.typtype, y.typbasetype
                   union all
                  select z.oid, z.typtype, z.typbasetype
                    from base join pg_type z on z.oid = base.typbasetype
                   where base.typtype = 'd')
              select array[v.nspname, u.typname] as staging_type, u.oid as base_type
                from base
                join pg_type u on u.oid = base.oid
                join pg_namespace v on v.oid = u.typnamespace
               where base.typtype <> 'd' and y.typtype = 'd') b on true
         -- the equality of a type that came with an extension, which the search path has not
         left join lateral (
              select n.nspname as equality_schema
                from pg_opclass c
                join pg_amop m on m.amopfamily = c.opcfamily and m.amopstrategy = 3
                              and m.amoplefttype = c.opcintype and m.amoprighttype = c.opcintype
                join pg_operator o on o.oid = m.amopopr and o.oprname = '='
                join pg_namespace n on n.oid = o.oprnamespace and n.nspname <> 'pg_catalog'
                join pg_am i on i.oid = c.opcmethod and i.amname = 'btree'
               where c.opcdefault and c.opcintype = coalesce(b.base_type, y.oid)
                 and y.typnamespace <> 'pg_catalog'::regnamespace) e on true
         -- How values are sent in an array: of the column's type, or else as texts, which are cast
         -- by the type's own input. unnest() takes arrays of arrays and composite types apart, and
         -- a few types have something else than a comma between the elements of their arrays.
         left join lateral (
              select case when u.is_plain then array[n.nspname, v.typname] end as array_type,
                     case when not u.is_plain and not exists (
                              select from pg_cast
                               where castsource = 'text'::regtype and casttarget = u.oid)
                          then array[n.nspname, u.typname] end as cast_type
                from (select p.*, p.typarray <> 0 and p.typtype <> 'c' and p.typdelim = ','
                             as is_plain
                        from pg_type p where p.oid = coalesce(b.base_type, y.oid)) u
                left join pg_type v on v.oid = u.typarray and u.is_plain
                join pg_namespace n on n.oid = coalesce(v.typnamespace, u.typnamespace)) x on true
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) a on true
