-- One row for each table that rules filter the rows of, with its columns that the condition names,
-- and whether changes always carry them.
select w.schema_name                          as schema,
       w.table_name                           as "table",
       c.relkind = 'p'                        as is_partitioned,
       c.relreplident = 'f'                   as is_full,
       i.indexrelid is not null               as has_identity,
       coalesce(k.names, '{}')                as names,
       coalesce(k.types, '{}')                as types,
       -- of those: not PostgreSQL's own, or not printed alike by every version
       coalesce(k.odd_names, '{}')            as odd_names,
       coalesce(k.generated_names, '{}')      as generated_names,
       coalesce(k.collated_names, '{}')       as collated_names,
       -- what wal2json prints otherwise than PostgreSQL does
       coalesce(k.reshaped_names, '{}')       as reshaped_names,
       coalesce(k.float_names, '{}')          as float_names,
       coalesce(k.other_names, '{}')          as other_names
  from unnest(%(schemas)s::text[], %(tables)s::text[]) as w (schema_name, table_name)
  join pg_namespace n on n.nspname = w.schema_name
  join pg_class c on c.relnamespace = n.oid and c.relname = w.table_name and c.relkind in ('r', 'p')
  left join pg_index i
         on i.indrelid = c.oid
        and (c.relreplident = 'd' and i.indisprimary or c.relreplident = 'i' and i.indisreplident)
 cross join lateral (
       select array_agg(a.attname::text order by a.attnum)              as names,
              array_agg(format_type(a.atttypid, a.atttypmod) order by a.attnum) as types,
              array_agg(a.attname::text) filter (
                  where t.typnamespace <> 'pg_catalog'::regnamespace
                     or t.typname <> all (%(plain_types)s::text[]))     as odd_names,
              array_agg(a.attname::text) filter (where a.attgenerated <> '') as generated_names,
              array_agg(a.attname::text) filter (
                  where a.attcollation not in (0, 'pg_catalog."default"'::regcollation))
                                                                        as collated_names,
              array_agg(a.attname::text) filter (where t.typname = 'bytea') as reshaped_names,
              array_agg(a.attname::text) filter (
                  where t.typname in ('float4', 'float8', 'numeric'))   as float_names,
              array_agg(a.attname::text) filter (
                  where i.indexrelid is not null and a.attnum <> all (i.indkey::int2[]))
                                                                        as other_names
         from pg_attribute a
         join pg_type t on t.oid = a.atttypid
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          and a.attname = any (%(columns)s::text[])) k
