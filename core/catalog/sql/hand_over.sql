-- The statements that give to a role whatever this session's role owns in some schemas, the schemas
-- first: who owns them may own what is in them. What belongs to a table goes with it.
with me (oid) as (select oid from pg_roles where rolname = current_user),
     places (oid, name) as (select oid, nspname from pg_namespace where nspname = any (%(schemas)s::text[]))
select format('ALTER %%s OWNER TO %%I', object, %(role)s::text)
  from (select 1 as place, s.oid, format('SCHEMA %%I', n.name) as object
          from pg_namespace s, me, places n
         where s.oid = n.oid and s.nspowner = me.oid
        union all
        select 2, c.oid,
               format('%%s %%I.%%I',
                      case c.relkind when 'v' then 'VIEW' when 'm' then 'MATERIALIZED VIEW'
                                     when 'S' then 'SEQUENCE' when 'f' then 'FOREIGN TABLE'
                                     when 'c' then 'TYPE' else 'TABLE' end,
                      n.name, c.relname)
          from pg_class c, me, places n
         where c.relnamespace = n.oid and c.relowner = me.oid
           and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
           and not (c.relkind = 'S' and exists (
                    select from pg_depend d
                     where d.classid = 'pg_class'::regclass and d.objid = c.oid
                       and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')))
        union all
        select 3, t.oid,
               format('%%s %%I.%%I', case t.typtype when 'd' then 'DOMAIN' else 'TYPE' end,
                      n.name, t.typname)
          from pg_type t, me, places n
         where t.typnamespace = n.oid and t.typowner = me.oid
           and t.typrelid = 0
           -- from PostgreSQL 17 on a multirange goes with its range
           and (t.typtype in ('b', 'd', 'e', 'r')
                or t.typtype = 'm' and current_setting('server_version_num')::integer < 170000)
           and not exists (select from pg_type e where e.typarray = t.oid)
        union all
        select 4, p.oid, format('ROUTINE %%s', p.oid::regprocedure)
          from pg_proc p, me, places n
         where p.pronamespace = n.oid and p.proowner = me.oid
        union all
        select 5, o.oid, format('OPERATOR %%s', o.oid::regoperator)
          from pg_operator o, me, places n
         where o.oprnamespace = n.oid and o.oprowner = me.oid
        union all
        select 6, l.oid, format('COLLATION %%I.%%I', n.name, l.collname)
          from pg_collation l, me, places n
         where l.collnamespace = n.oid and l.collowner = me.oid
        union all
        select 7, s.oid, format('STATISTICS %%I.%%I', n.name, s.stxname)
          from pg_statistic_ext s, me, places n
         where s.stxnamespace = n.oid and s.stxowner = me.oid) owned
 order by place, oid
