-- What the order of each column of a table goes by. Run on either side.
--
-- order_name: null for a type whose order is the same everywhere; what is not known to be is ''.
-- A collation is the same where its provider, its name, its version and the encoding are.
with ordering as (
    select case
             when a.attcollation = 0 then null
             when not l.collisdeterministic then ''
             when p.provider = 'c' and p.locale in ('C', 'POSIX') then concat_ws('/', e.encoding, 'C')
             when p.version is null and p.provider <> 'b' then ''
             else concat_ws('/', e.encoding, p.provider, p.locale, p.rules, p.version)
           end as order_name,
           a.attnum
      from pg_attribute a
      join pg_collation l on l.oid = a.attcollation
      cross join (select pg_encoding_to_char(d.encoding) as encoding, to_jsonb(d) as d, d.oid,
                         d.datcollate::text as datcollate
                    from pg_database d where d.datname = current_database()) e
      cross join lateral (
           select case when l.collprovider = 'd' then coalesce(e.d ->> 'datlocprovider', 'c')
                       else l.collprovider::text end as provider) q
      cross join lateral (
           select q.provider,
                  case when l.collprovider = 'd' and q.provider = 'c' then e.datcollate
                       when l.collprovider = 'd'
                       then coalesce(e.d ->> 'datlocale', e.d ->> 'daticulocale')
                       when q.provider = 'c' then l.collcollate::text
                       else coalesce(to_jsonb(l) ->> 'colllocale', to_jsonb(l) ->> 'colliculocale',
                                     l.collcollate::text)
                  end as locale,
                  case when l.collprovider = 'd' then e.d ->> 'daticurules'
                       else to_jsonb(l) ->> 'collicurules' end as rules,
                  case when l.collprovider = 'd' then pg_database_collation_actual_version(e.oid)
                       else pg_collation_actual_version(l.oid) end as version) p
     where a.attrelid = %(oid)s::oid),
base as (
    with recursive below (attnum, oid, typtype, typbasetype) as (
        select a.attnum, t.oid, t.typtype, t.typbasetype
          from pg_attribute a join pg_type t on t.oid = a.atttypid
         where a.attrelid = %(oid)s::oid and a.attnum > 0 and not a.attisdropped
         union all
        select b.attnum, t.oid, t.typtype, t.typbasetype
          from below b join pg_type t on t.oid = b.typbasetype
         where b.typtype = 'd')
    select attnum, oid from below where typtype <> 'd')
select a.attname::text as name,
       case when b.oid = any (array['bool', 'int2', 'int4', 'int8', 'oid', 'numeric', 'float4',
                 'float8', 'uuid', 'bytea', 'date', 'time', 'timetz', 'timestamp', 'timestamptz',
                 'interval', 'inet', 'cidr', 'macaddr', 'macaddr8', 'pg_lsn', '"char"',
                 'bit', 'varbit']::regtype[])
            then null
            when b.oid = any (array['text', 'varchar', 'bpchar', 'name']::regtype[])
            then coalesce(c.order_name, '')
            else '' end as order_name
  from pg_attribute a
  join base b on b.attnum = a.attnum
  left join ordering c on c.attnum = a.attnum
 where a.attrelid = %(oid)s::oid
