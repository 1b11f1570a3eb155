-- Views and foreign keys outside the schemas given that depend on tables in them.
with ours (oid) as (
    select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any (%(schemas)s)
)
select v.oid::regclass::text
  from pg_depend d
  join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
  join pg_class v on v.oid = r.ev_class
 where d.refclassid = 'pg_class'::regclass
   and d.refobjid in (select oid from ours) and v.oid not in (select oid from ours)
union
select k.conrelid::regclass::text
  from pg_constraint k
 where k.confrelid in (select oid from ours) and k.conrelid not in (select oid from ours)
 order by 1
