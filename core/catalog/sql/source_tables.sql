-- One row per ordinary or partitioned table of a source that belongs to no extension.
-- A partition is selected by the name of its root, so both names are here.
select c.oid::bigint                            as oid,
       n.nspname::text                          as schema,
       c.relname::text                          as name,
       coalesce(rn.nspname, n.nspname)::text    as root_schema,
       coalesce(rc.relname, c.relname)::text    as root_name,
       c.relkind = 'p'                          as is_partitioned,
       c.relpersistence = 'u'                   as is_unlogged,
       greatest(c.reltuples, 0)::bigint         as row_estimate,
       -- what a COPY names: generated columns are computed by the target
       array(select a.attname::text from pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                and a.attgenerated = ''
              order by a.attnum)                as columns,
       array(select a.attname::text from pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
              order by a.attnum)                as all_columns,
       -- whether COPY's binary format says the same on every server: it holds no text that settings
       -- shape, and no OID that is another one elsewhere. Enums travel by their labels.
       p.is_plain,
       p.is_all_plain,
       -- differs when a column came, went, or changed its name, its type or what computes it
       (select md5(coalesce(string_agg(
                   concat_ws('/', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                             a.attgenerated,
                             case when a.attgenerated <> ''
                                  then pg_get_expr(d.adbin, d.adrelid) end),
                   ',' order by a.attnum), ''))
          from pg_attribute a
          left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as definition
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class rc on rc.oid = pg_partition_root(c.oid)
  left join pg_namespace rn on rn.oid = rc.relnamespace
 cross join lateral (
       select coalesce(bool_and(k.is_plain) filter (where k.attgenerated = ''), false) as is_plain,
              coalesce(bool_and(k.is_plain), false) as is_all_plain
         from (select a.attgenerated,
                      b.typtype = 'e' and b.typcategory = 'E'
                      or coalesce(e.typname, b.typname) = any (%(plain_types)s::text[])
                         and coalesce(e.typnamespace, b.typnamespace) = 'pg_catalog'::regnamespace
                         as is_plain
                 from pg_attribute a
                 join pg_type t on t.oid = a.atttypid
                 -- the type below a domain, however deep, and the elements of an array
                 cross join lateral (
                      with recursive base (oid, typtype, typbasetype) as (
                          select t.oid, t.typtype, t.typbasetype
                           union all
                          select n.oid, n.typtype, n.typbasetype
                            from base join pg_type n on n.oid = base.typbasetype
                           where base.typtype = 'd')
                      select base.oid from base where base.typtype <> 'd') r
                 join pg_type b on b.oid = r.oid
                 left join pg_type e on e.oid = b.typelem and b.typcategory = 'A'
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) k) p
 where c.relkind in ('r', 'p')
   and c.relpersistence <> 't'
   and n.nspname !~ '^pg_'
   and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
 order by n.nspname, c.relname
