-- Views that use columns of some tables, and views that use those, however far: what makes them
-- again, in the order in which they can be made. Needs search_path = pg_catalog.
with recursive used (oid, depth) as (
    select r.ev_class, 1
      from pg_depend d
      join pg_rewrite r on r.oid = d.objid
      join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
     where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass
       and d.refobjid = any (%(oids)s::oid[]) and a.attname = any (%(columns)s::text[])
       and r.ev_class <> d.refobjid
    union
    select r.ev_class, u.depth + 1
      from used u
      join pg_depend d on d.refobjid = u.oid
      join pg_rewrite r on r.oid = d.objid
     where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass
       and r.ev_class <> u.oid)
select c.oid::bigint as oid, n.nspname::text as schema, c.relname::text as name,
       c.relkind::text as kind, o.name as owner, pg_get_viewdef(c.oid) as definition,
       array(select format('%%I = %%L', p.option_name, p.option_value)
               from pg_options_to_table(c.reloptions) p) as options,
       -- what stands on the view itself
       array(select format('alter view %%I.%%I alter column %%I set default %%s', n.nspname,
                           c.relname, a.attname, pg_get_expr(f.adbin, f.adrelid))
               from pg_attrdef f
               join pg_attribute a on a.attrelid = f.adrelid and a.attnum = f.adnum
              where f.adrelid = c.oid
              order by a.attnum)
       || array(select format('comment on view %%I.%%I is %%L', n.nspname, c.relname, d.description)
                  from pg_description d
                 where d.classoid = 'pg_class'::regclass and d.objoid = c.oid and d.objsubid = 0)
       || array(select format('comment on column %%I.%%I.%%I is %%L', n.nspname, c.relname,
                              a.attname, d.description)
                  from pg_description d
                  join pg_attribute a on a.attrelid = d.objoid and a.attnum = d.objsubid
                 where d.classoid = 'pg_class'::regclass and d.objoid = c.oid
                 order by a.attnum)
       || array(select pg_get_ruledef(w.oid) from pg_rewrite w
                 where w.ev_class = c.oid and w.rulename <> '_RETURN' order by w.rulename)
       || array(select pg_get_triggerdef(t.oid) from pg_trigger t
                 where t.tgrelid = c.oid and not t.tgisinternal order by t.tgname)
       || array(select format('grant %%s%%s on %%I.%%I to %%s%%s', x.privilege_type,
                              '(' || quote_ident(a.attname) || ')', n.nspname, c.relname,
                              case when x.grantee = 0 then 'public'
                                   else quote_ident(pg_get_userbyid(x.grantee)) end,
                              case when x.is_grantable then ' with grant option' else '' end)
                  from pg_attribute a cross join aclexplode(a.attacl) x
                 where a.attrelid = c.oid and a.attnum > 0 and x.grantee <> c.relowner)
       as statements,
       -- null: nobody granted or revoked anything
       case when c.relacl is not null then array(
           select format('grant %%s on %%I.%%I to %%s%%s', x.privilege_type, n.nspname, c.relname,
                         case when x.grantee = 0 then 'public'
                              else quote_ident(pg_get_userbyid(x.grantee)) end,
                         case when x.is_grantable and x.grantee <> c.relowner
                              then ' with grant option' else '' end)
             from aclexplode(c.relacl) x) end as grants
  from (select u.oid, max(u.depth) as depth from used u group by u.oid) v
  join pg_class c on c.oid = v.oid
  join pg_namespace n on n.oid = c.relnamespace
 cross join lateral (select pg_get_userbyid(c.relowner)::text as name) o
 order by v.depth, n.nspname, c.relname
