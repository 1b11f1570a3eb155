-- The ordinary and partitioned tables of some schemas with their columns, on either side.
select c.oid::bigint            as oid,
       n.nspname::text          as schema,
       c.relname::text          as name,
       c.relkind = 'p'          as is_partitioned,
       greatest(c.reltuples, 0)::bigint as row_estimate,
       (select coalesce(json_agg(json_build_object(
                   'name', a.attname,
                   -- as PostgreSQL writes it; of other types the name alone, for on the target they
                   -- live in another schema
                   'type', case when coalesce(e.typnamespace, t.typnamespace)
                                     = 'pg_catalog'::regnamespace
                                then format_type(a.atttypid, a.atttypmod)
                                when e.oid is not null then e.typname || '[]'
                                else t.typname end,
                   'type_schema', tn.nspname,
                   'type_name', t.typname,
                   'is_not_null', a.attnotnull,
                   'is_generated', a.attgenerated <> '',
                   -- whether every server orders its values the same way
                   'is_ordered_alike', t.typnamespace = 'pg_catalog'::regnamespace
                       and t.typname in ('int2', 'int4', 'int8', 'oid', 'numeric', 'uuid', 'date',
                                         'timestamp', 'timestamptz', 'bytea'),
                   -- whether "=" is found without a search path
                   'is_comparable', t.typnamespace = 'pg_catalog'::regnamespace or t.typtype = 'e'
               ) order by a.attnum), '[]')
          from pg_attribute a
          join pg_type t on t.oid = a.atttypid
          join pg_namespace tn on tn.oid = t.typnamespace
          left join pg_type e on e.oid = t.typelem and t.typcategory = 'A'
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p') and n.nspname = any (%(schemas)s)
 order by n.nspname, c.relname
