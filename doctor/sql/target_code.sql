-- Code of sources on the target, and what rests on it: functions, operators, casts and operator
-- classes in the schemas that pgrepl made, and triggers, policies, views, rules, statistics,
-- indexes, constraints, expressions and domains that call them. One row each, with the statement
-- that takes it away, in the order in which they can run.
with places (oid, name) as (
    select oid, nspname from pg_namespace where nspname = any (%(schemas)s)
),
members (classid, objid) as (
    select classid, objid from pg_depend where deptype = 'e'
),
-- the constructors of a range type are PostgreSQL's own
functions (oid) as (
    select p.oid from pg_proc p join places s on s.oid = p.pronamespace
     where p.prolang <> (select oid from pg_language where lanname = 'internal')
       and ('pg_proc'::regclass, p.oid) not in (select classid, objid from members)
),
operators (oid) as (
    select o.oid from pg_operator o join places s on s.oid = o.oprnamespace
     where ('pg_operator'::regclass, o.oid) not in (select classid, objid from members)
),
casts (oid) as (
    select c.oid from pg_cast c where c.castfunc in (select oid from functions)
),
classes (oid) as (
    select c.oid from pg_opclass c join places s on s.oid = c.opcnamespace
     where ('pg_opclass'::regclass, c.oid) not in (select classid, objid from members)
),
code (classid, objid) as (
    select 'pg_proc'::regclass::oid, oid from functions
    union all select 'pg_operator'::regclass, oid from operators
    union all select 'pg_cast'::regclass, oid from casts
    union all select 'pg_opclass'::regclass, oid from classes
),
calls (classid, objid) as (
    select distinct d.classid, d.objid from pg_depend d
      join code c on c.classid = d.refclassid and c.objid = d.refobjid
),
relations (oid, schema, name, full_name) as (
    select c.oid, s.name, c.relname, format('%%I.%%I', s.name, c.relname)
      from pg_class c join places s on s.oid = c.relnamespace
),
found (place, oid, schema, kind, name, statement) as (
    select 1, p.oid, r.schema, 'policy', format('%%s on %%s', p.polname, r.full_name),
           format('DROP POLICY %%I ON %%s', p.polname, r.full_name)
      from pg_policy p join relations r on r.oid = p.polrelid
     where ('pg_policy'::regclass, p.oid) in (select classid, objid from calls)
    union all
    select 2, t.oid, r.schema, 'trigger', format('%%s on %%s', t.tgname, r.full_name),
           format('DROP TRIGGER %%I ON %%s', t.tgname, r.full_name)
      from pg_trigger t join relations r on r.oid = t.tgrelid
     where not t.tgisinternal and t.tgparentid = 0
       and ('pg_trigger'::regclass, t.oid) in (select classid, objid from calls)
    union all
    select 3, w.oid, r.schema, case when w.rulename = '_RETURN' then 'view' else 'rule' end,
           case when w.rulename = '_RETURN' then r.full_name
                else format('%%s on %%s', w.rulename, r.full_name) end,
           case when w.rulename <> '_RETURN'
                then format('DROP RULE %%I ON %%s', w.rulename, r.full_name)
                when c.relkind = 'm' then format('DROP MATERIALIZED VIEW %%s', r.full_name)
                else format('DROP VIEW %%s', r.full_name) end
      from pg_rewrite w join relations r on r.oid = w.ev_class join pg_class c on c.oid = r.oid
     where ('pg_rewrite'::regclass, w.oid) in (select classid, objid from calls)
    union all
    select 4, t.oid, s.name, 'statistics', format('%%I.%%I', s.name, t.stxname),
           format('DROP STATISTICS %%I.%%I', s.name, t.stxname)
      from pg_statistic_ext t join places s on s.oid = t.stxnamespace
     where ('pg_statistic_ext'::regclass, t.oid) in (select classid, objid from calls)
    union all
    -- of a partitioned index its parts go with it; that of a constraint goes with the constraint
    select 5, i.indexrelid, r.schema, 'index', r.full_name,
           coalesce((select format('ALTER TABLE %%s DROP CONSTRAINT %%I', t.full_name, k.conname)
                       from pg_constraint k join relations t on t.oid = k.conrelid
                      where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x') limit 1),
                    format('DROP INDEX %%s', r.full_name))
      from pg_index i join relations r on r.oid = i.indexrelid
     where ('pg_class'::regclass, i.indexrelid) in (select classid, objid from calls)
       and not exists (select from pg_inherits h where h.inhrelid = i.indexrelid)
    union all
    select 6, k.oid, r.schema, 'constraint', format('%%s on %%s', k.conname, r.full_name),
           format('ALTER TABLE %%s DROP CONSTRAINT %%I', r.full_name, k.conname)
      from pg_constraint k join relations r on r.oid = k.conrelid
     where k.contype = 'c' and k.coninhcount = 0
       and ('pg_constraint'::regclass, k.oid) in (select classid, objid from calls)
    union all
    -- a generated column keeps its values and becomes a plain one
    select 7, d.oid, r.schema,
           case when a.attgenerated = '' then 'default' else 'generated column' end,
           format('%%s.%%I', r.full_name, a.attname),
           format('ALTER TABLE %%s ALTER COLUMN %%I DROP %%s', r.full_name, a.attname,
                  case when a.attgenerated = '' then 'DEFAULT' else 'EXPRESSION' end)
      from pg_attrdef d
      join relations r on r.oid = d.adrelid
      join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
     where ('pg_attrdef'::regclass, d.oid) in (select classid, objid from calls)
       and (a.attgenerated = '' or a.attinhcount = 0)
    union all
    select 8, k.oid, s.name, 'domain', format('%%I.%%I', s.name, t.typname),
           format('ALTER DOMAIN %%I.%%I DROP CONSTRAINT %%I', s.name, t.typname, k.conname)
      from pg_constraint k join pg_type t on t.oid = k.contypid
      join places s on s.oid = t.typnamespace
     where ('pg_constraint'::regclass, k.oid) in (select classid, objid from calls)
    union all
    select 9, t.oid, s.name, 'domain', format('%%I.%%I', s.name, t.typname),
           format('ALTER DOMAIN %%I.%%I DROP DEFAULT', s.name, t.typname)
      from pg_type t join places s on s.oid = t.typnamespace
     where t.typtype = 'd' and t.typdefaultbin is not null
       and ('pg_type'::regclass, t.oid) in (select classid, objid from calls)
    union all
    select 10, c.oid, (select s.name from pg_proc p join places s on s.oid = p.pronamespace
                        where p.oid = c.castfunc), 'cast',
           format('%%s as %%s', format_type(c.castsource, null), format_type(c.casttarget, null)),
           format('DROP CAST (%%s AS %%s)', format_type(c.castsource, null),
                  format_type(c.casttarget, null))
      from pg_cast c where c.oid in (select oid from casts)
    union all
    select 11, c.oid, s.name, 'operator class', format('%%I.%%I', s.name, c.opcname),
           format('DROP OPERATOR CLASS %%I.%%I USING %%I', s.name, c.opcname, m.amname)
      from pg_opclass c join places s on s.oid = c.opcnamespace join pg_am m on m.oid = c.opcmethod
     where c.oid in (select oid from classes)
    union all
    select 12, o.oid, s.name, 'operator', o.oid::regoperator::text,
           format('DROP OPERATOR %%I.%%s (%%s, %%s)', s.name, o.oprname,
                  case o.oprleft when 0 then 'NONE' else format_type(o.oprleft, null) end,
                  format_type(o.oprright, null))
      from pg_operator o join places s on s.oid = o.oprnamespace
     where o.oid in (select oid from operators)
    union all
    select 13, p.oid, s.name, 'function', p.oid::regprocedure::text,
           format('DROP ROUTINE %%s', p.oid::regprocedure)
      from pg_proc p join places s on s.oid = p.pronamespace
     where p.oid in (select oid from functions)
)
-- who calls another was made after it
select schema::text, kind, name, statement from found order by place, oid desc
