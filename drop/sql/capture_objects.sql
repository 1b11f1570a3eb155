-- What is in the schema of the capture of DDL, by what it is: a table or a function of ours, or
-- something of others. Nothing is ours where no table of ours is.
with place (oid) as (select oid from pg_namespace where nspname = %(schema)s),
     found (kind, name) as (
       select case when c.relkind = 'r' and c.relname = any (%(tables)s) then 'table'
                   else 'stranger' end,
              format('%%I.%%I', %(schema)s::text, c.relname)
         from pg_class c, place n
        where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
          and not (c.relkind = 'S' and exists (
                   select from pg_depend d
                    where d.classid = 'pg_class'::regclass and d.objid = c.oid
                      and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')))
        union all
       select case when p.proname = any (%(functions)s) then 'function' else 'stranger' end,
              format('%%I.%%I(%%s)', %(schema)s::text, p.proname,
                     pg_get_function_identity_arguments(p.oid))
         from pg_proc p, place n
        where p.pronamespace = n.oid
        union all
       select 'stranger', format('%%I.%%I', %(schema)s::text, t.typname)
         from pg_type t, place n
        where t.typnamespace = n.oid and t.typrelid = 0
          and not exists (select from pg_type e where e.typarray = t.oid))
select kind, name
  from found
 where exists (select from found where kind = 'table')
 order by 1, 2
