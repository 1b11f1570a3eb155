-- The unique keys of some tables, on either side: indexes that are valid and whole and are of
-- columns alone; the primary key first, then the index of the replica identity.
select i.indrelid::bigint        as "table",
       c.relname::text           as name,
       k.columns,
       i.indisprimary            as is_primary,
       i.indisreplident          as is_identity,
       -- not deferrable
       i.indimmediate            as is_immediate,
       k.is_not_null,
       k.is_generated
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
 cross join lateral (
       select array_agg(a.attname::text order by p.position) as columns,
              bool_and(a.attnotnull)                         as is_not_null,
              bool_or(a.attgenerated <> '')                  as is_generated
         from unnest(i.indkey::smallint[]) with ordinality as p (attnum, position)
         join pg_attribute a on a.attrelid = i.indrelid and a.attnum = p.attnum
        -- not the columns that the index merely includes
        where p.position <= i.indnkeyatts) k
 where i.indrelid = any (%(tables)s::oid[])
   and i.indisunique and i.indisvalid
   and i.indpred is null and i.indexprs is null
 order by i.indrelid, i.indisprimary desc, i.indisreplident desc, c.relname
