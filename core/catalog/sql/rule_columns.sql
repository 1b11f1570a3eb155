-- One row for each column of some tables that reach the other side masked or not at all, with what
-- stands in the way of that; the same on source and target.
select w.schema_name                          as schema,
       w.table_name                           as "table",
       a.attname::text                        as name,
       format_type(a.atttypid, a.atttypmod)   as type,
       t.typtype::text                        as type_kind,
       case when t.typnamespace = 'pg_catalog'::regnamespace then t.typname::text end as type_name,
       a.atttypmod                            as type_modifier,
       a.attnotnull                           as is_not_null,
       a.attgenerated <> '' or a.attidentity <> '' as is_generated,
       -- a partition key, plain or in an expression
       exists (select from pg_partitioned_table p
                where p.partrelid = c.oid and a.attnum = any (p.partattrs::int2[]))
       or exists (select from pg_depend d
                   where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.objsubid = 0
                     and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
                     and d.refobjsubid = a.attnum) as is_partition_key,
       array(select k.contype::text || k.conname from pg_constraint k
              where k.conrelid = c.oid and a.attnum = any (k.conkey)
                and k.contype in ('c', 'f', 'p', 'u', 'x')
              order by 1)                     as constraints,
       array(select k.conname::text from pg_constraint k
              where k.contype = 'f' and k.confrelid = c.oid and a.attnum = any (k.confkey)
              order by 1)                     as referenced_by,
       array(select case when i.indisprimary or i.indisreplident and c.relreplident = 'i' then 'k'
                         when i.indexprs is not null or i.indpred is not null
                              or to_jsonb(i) ->> 'indnullsnotdistinct' = 'true' then 'e'
                         else 'u' end || x.relname
               from pg_index i
               join pg_class x on x.oid = i.indexrelid
              where i.indrelid = c.oid and i.indisunique
                and (a.attnum = any (i.indkey::int2[])
                     or exists (select from pg_depend d
                                 where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
                                   and d.refobjid = c.oid and d.refobjsubid = a.attnum))
              order by 1)                     as unique_indexes,
       array(select g.attname::text
               from pg_attrdef f
               join pg_attribute g on g.attrelid = f.adrelid and g.attnum = f.adnum
              where f.adrelid = c.oid and g.attgenerated <> '' and f.adnum <> a.attnum
                and exists (select from pg_depend d
                             where (d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
                                    or d.classid = 'pg_class'::regclass and d.objid = c.oid
                                       and d.objsubid = f.adnum)
                               and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
                               and d.refobjsubid = a.attnum)
              order by 1)                     as generated_from_it,
       c.reloftype <> 0                       as is_typed,
       (select count(*) from pg_attribute o
         where o.attrelid = c.oid and o.attnum > 0 and not o.attisdropped) as column_count
  from unnest(%(schemas)s::text[], %(tables)s::text[], %(columns)s::text[])
       as w (schema_name, table_name, column_name)
  join pg_namespace n on n.nspname = w.schema_name
  join pg_class c on c.relnamespace = n.oid and c.relname = w.table_name and c.relkind in ('r', 'p')
  join pg_attribute a on a.attrelid = c.oid and a.attname = w.column_name
                     and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
