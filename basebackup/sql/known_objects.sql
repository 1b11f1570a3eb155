-- What is in some schemas of the target, as far as statements of a dump are about it.
with places (oid, name) as (select oid, nspname from pg_namespace where nspname = any (%(schemas)s))
select 'pg_class' as what, n.name::text as schema, null as "table", c.relname::text as name
  from pg_class c join places n on n.oid = c.relnamespace
union all
select 'pg_type', n.name, null, t.typname
  from pg_type t join places n on n.oid = t.typnamespace
union all
select 'pg_proc', n.name, null, p.proname
  from pg_proc p join places n on n.oid = p.pronamespace
union all
select 'pg_operator', n.name, null, o.oprname
  from pg_operator o join places n on n.oid = o.oprnamespace
union all
select 'pg_collation', n.name, null, l.collname
  from pg_collation l join places n on n.oid = l.collnamespace
union all
select 'pg_opclass', n.name, null, o.opcname
  from pg_opclass o join places n on n.oid = o.opcnamespace
union all
select 'pg_opfamily', n.name, null, o.opfname
  from pg_opfamily o join places n on n.oid = o.opfnamespace
union all
select 'pg_ts_dict', n.name, null, d.dictname
  from pg_ts_dict d join places n on n.oid = d.dictnamespace
union all
select 'pg_ts_config', n.name, null, d.cfgname
  from pg_ts_config d join places n on n.oid = d.cfgnamespace
union all
select 'pg_statistic_ext', n.name, null, s.stxname
  from pg_statistic_ext s join places n on n.oid = s.stxnamespace
union all
select 'fk', n.name, c.relname, k.conname
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
  join places n on n.oid = c.relnamespace
