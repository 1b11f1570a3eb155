-- What a table or view that was made to try an expression rests on, however far away, as PostgreSQL
-- itself wrote it down; of it what is code, neither PostgreSQL's own nor an extension's.
-- And the functions in its stored expressions that are not immutable, with those of the checks of
-- domains that it reaches.
with recursive
reached (classid, objid) as (
    select 'pg_catalog.pg_class'::regclass::oid, %(probe)s::oid
     union
    select x.classid, x.objid
      from reached r
     cross join lateral (
           select d.refclassid as classid, d.refobjid as objid
             from pg_catalog.pg_depend d
            where d.classid = r.classid and d.objid = r.objid and d.deptype in ('n', 'a', 'i')
              -- the types of columns that the expression does not compute run nothing
              and r.objid <> %(probe)s::oid
              and d.refclassid <> 'pg_catalog.pg_namespace'::regclass
            union all
           -- what hangs on the table itself: defaults, constraints, indexes, the query of a view
           select d.classid, d.objid
             from pg_catalog.pg_depend d
            where r.objid = %(probe)s::oid and r.classid = 'pg_catalog.pg_class'::regclass
              and d.refclassid = r.classid and d.refobjid = r.objid and d.deptype in ('a', 'i')
            union all
           -- the constraints of a domain, the operators and functions of an operator class
           select d.classid, d.objid
             from pg_catalog.pg_depend d
            where d.refclassid = r.classid and d.refobjid = r.objid
              and (r.classid = 'pg_catalog.pg_type'::regclass
                   and d.classid = 'pg_catalog.pg_constraint'::regclass
                   or r.classid in ('pg_catalog.pg_opclass'::regclass,
                                    'pg_catalog.pg_opfamily'::regclass)
                   and d.classid in ('pg_catalog.pg_amop'::regclass,
                                     'pg_catalog.pg_amproc'::regclass))
            union all
           -- the columns of a composite type
           select 'pg_catalog.pg_class'::regclass, y.typrelid
             from pg_catalog.pg_type y
            where r.classid = 'pg_catalog.pg_type'::regclass and y.oid = r.objid
              and y.typtype = 'c') x
     where not exists (select from pg_catalog.pg_depend e
                        where e.classid = r.classid and e.objid = r.objid and e.deptype = 'e')
),
foreign_code (kind, name) as (
    select i.type, coalesce(p.proname, o.oprname, i.name, i.identity)
      from reached r
     cross join lateral pg_catalog.pg_identify_object(r.classid, r.objid, 0) i
      left join pg_catalog.pg_proc p
             on r.classid = 'pg_catalog.pg_proc'::regclass and p.oid = r.objid
      left join pg_catalog.pg_operator o
             on r.classid = 'pg_catalog.pg_operator'::regclass and o.oid = r.objid
      left join pg_catalog.pg_type t
             on r.classid = 'pg_catalog.pg_type'::regclass and t.oid = r.objid
      left join pg_catalog.pg_class c
             on r.classid = 'pg_catalog.pg_class'::regclass and c.oid = r.objid
      left join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where r.objid >= 16384
       and not exists (select from pg_catalog.pg_depend e
                        where e.classid = r.classid and e.objid = r.objid and e.deptype = 'e')
       and (r.classid in ('pg_catalog.pg_proc'::regclass, 'pg_catalog.pg_operator'::regclass,
                          'pg_catalog.pg_opclass'::regclass, 'pg_catalog.pg_opfamily'::regclass,
                          'pg_catalog.pg_am'::regclass, 'pg_catalog.pg_cast'::regclass,
                          'pg_catalog.pg_language'::regclass,
                          'pg_catalog.pg_ts_parser'::regclass,
                          'pg_catalog.pg_ts_template'::regclass)
            or t.typtype = 'b' and not (t.typelem <> 0 and t.typcategory = 'A')
            -- a sequence not owned by the source
            or c.relkind = 'S' and n.nspname <> all (%(own_schemas)s::text[]))
),
expression (text, is_domain) as (
    select pg_catalog.concat(k.conbin, d.adbin, x.indexprs, x.indpred, w.ev_action),
           k.contypid <> 0
      from reached r
      left join pg_catalog.pg_constraint k
             on r.classid = 'pg_catalog.pg_constraint'::regclass and k.oid = r.objid
      left join pg_catalog.pg_attrdef d
             on r.classid = 'pg_catalog.pg_attrdef'::regclass and d.oid = r.objid
      left join pg_catalog.pg_index x
             on r.classid = 'pg_catalog.pg_class'::regclass and x.indexrelid = r.objid
      left join pg_catalog.pg_rewrite w
             on r.classid = 'pg_catalog.pg_rewrite'::regclass and w.oid = r.objid
),
-- What a query reads and is not the source's: the catalogue shows what its reader may not see, with
-- the privileges of the view's owner.
other_relation (name) as (
    select c.relname::text
      from expression e
     cross join lateral pg_catalog.regexp_matches(e.text, ':relid (\d+)', 'g') m
      join pg_catalog.pg_class c on c.oid = m[1]::oid
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where c.oid <> %(probe)s::oid and n.nspname <> all (%(own_schemas)s::text[])
),
called (oid, is_domain) as (
    select f.id, e.is_domain
      from expression e
     cross join lateral (
           select m[1]::oid
             from pg_catalog.regexp_matches(
                  e.text, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') m
            union
           select o.oprcode::oid
             from pg_catalog.regexp_matches(e.text, ':opno (\d+)', 'g') m
             join pg_catalog.pg_operator o on o.oid = m[1]::oid
            union
           select o.oprcode::oid
             from pg_catalog.regexp_matches(e.text, ':opnos \(o ([\d ]+)\)', 'g') m
            cross join lateral pg_catalog.regexp_split_to_table(m[1], ' ') s (id)
             join pg_catalog.pg_operator o on o.oid = s.id::oid) f (id)
)
select kind, name, false as is_built_in, false as is_member, false as is_conversion,
       true as is_foreign, false as is_domain
  from foreign_code
 union
select 'relation', name, false, false, false, true, false
  from other_relation
 union
select 'function', p.proname::text, p.oid < 16384,
       exists (select from pg_catalog.pg_depend d
                where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid
                  and d.deptype = 'e'),
       -- the function of an operator or a cast looks at nothing but its arguments and settings
       p.provolatile = 's' and p.oid < 16384
           and (exists (select from pg_catalog.pg_operator o
                         where o.oprcode = p.oid and o.oid < 16384)
                or exists (select from pg_catalog.pg_cast t
                            where t.castfunc = p.oid and t.oid < 16384)),
       false, coalesce(c.is_domain, false)
  from called c
  join pg_catalog.pg_proc p on p.oid = c.oid
 where p.provolatile <> 'i'
 order by 6 desc, 1, 2
