-- Everything that the tables or views given need, however far away: what their columns, defaults,
-- constraints, indexes and queries depend on. Foreign keys count for nothing here.
--
-- is_evaluated: whether it is needed by more than defaults of columns, which a copy never computes.
-- is_required: whether nothing can be made without it; without the source's code, expressions can.
with recursive
needed (classid, objid, is_evaluated, is_required) as (
    select 'pg_class'::regclass::oid, t.oid, true, true
      from unnest(%(tables)s::oid[]) as t (oid)
     union
    -- what hangs on a table: defaults, constraints, indexes, sequences of its columns
    select d.classid, d.objid, coalesce(a.attgenerated <> '', true),
           %(with_code)s
           or exists (select from pg_class x
                       where d.classid = 'pg_class'::regclass and x.oid = d.objid
                         and x.relkind = 'S')
      from unnest(%(tables)s::oid[]) as t (oid)
      join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid
      left join pg_constraint c on d.classid = 'pg_constraint'::regclass and c.oid = d.objid
      left join pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
      left join pg_attribute a on a.attrelid = f.adrelid and a.attnum = f.adnum
     where d.classid in ('pg_attrdef'::regclass, 'pg_constraint'::regclass)
           and d.deptype in ('a', 'i') and c.contype is distinct from 'f'
        or d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
           and exists (select from pg_class x where x.oid = d.objid and x.relkind in ('i', 'I', 'S'))
        -- the query of a view; other rules are not copied
        or d.classid = 'pg_rewrite'::regclass and d.deptype = 'i'
           and exists (select from pg_rewrite q where q.oid = d.objid and q.rulename = '_RETURN')
     union
    select x.classid, x.objid, n.is_evaluated, n.is_required
      from needed n
     cross join lateral (
           -- what those need in turn
           select d.refclassid as classid, d.refobjid as objid
             from pg_depend d
            where d.classid = n.classid and d.objid = n.objid and d.deptype in ('n', 'a', 'i')
              and d.refclassid <> 'pg_namespace'::regclass
            union all
           -- the constraints of a domain
           select d.classid, d.objid
             from pg_depend d
            where n.classid = 'pg_type'::regclass and d.refclassid = n.classid
              and d.refobjid = n.objid and d.classid = 'pg_constraint'::regclass
              and d.deptype = 'a'
            union all
           -- the operators and functions of an operator class or family
           select d.classid, d.objid
             from pg_depend d
            where n.classid in ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
              and d.refclassid = n.classid and d.refobjid = n.objid
              and d.classid in ('pg_amop'::regclass, 'pg_amproc'::regclass)
            union all
           -- the index that a constraint uses
           select d.classid, d.objid
             from pg_depend d
            where n.classid = 'pg_constraint'::regclass and d.refclassid = n.classid
              and d.refobjid = n.objid and d.classid = 'pg_class'::regclass and d.deptype = 'i'
            union all
           -- the columns of a composite type
           select 'pg_class'::regclass, y.typrelid
             from pg_type y
            where n.classid = 'pg_type'::regclass and y.oid = n.objid and y.typrelid <> 0) x
     where not exists (select from pg_depend e
                        where e.classid = n.classid and e.objid = n.objid and e.deptype = 'e')
       and (%(with_code)s
            or x.classid not in ('pg_proc'::regclass, 'pg_operator'::regclass,
                                 'pg_opclass'::regclass, 'pg_opfamily'::regclass,
                                 'pg_amop'::regclass, 'pg_amproc'::regclass, 'pg_am'::regclass,
                                 'pg_language'::regclass, 'pg_cast'::regclass,
                                 'pg_ts_parser'::regclass, 'pg_ts_template'::regclass))
),
object (classid, objid, is_evaluated, is_required) as (
    select classid, objid, bool_or(is_evaluated), bool_or(is_required)
      from needed group by classid, objid
)
select o.classid::regclass::text                                as catalog,
       o.objid::bigint                                          as oid,
       (parse_ident(i.schema))[1]                               as schema,
       coalesce(p.proname::text, opr.oprname::text, c.relname::text, t.typname::text,
                (parse_ident(i.name, false))[1])                     as name,
       array(select case when e.oid is null then y.typname::text else e.typname || '[]' end
               -- the one side that a prefix operator has not is 0, which is no type
               from unnest(coalesce(p.proargtypes::oid[], array[opr.oprleft, opr.oprright]))
                    with ordinality as a (type, position)
               join pg_type y on y.oid = a.type
               left join pg_type e on e.oid = y.typelem and y.typcategory = 'A'
              order by a.position)                              as arguments,
       c.relkind::text                                          as relation_kind,
       o.is_evaluated                                           as is_evaluated,
       (select x.extname::text
          from pg_depend e
          join pg_extension x on x.oid = e.refobjid
         where e.classid = o.classid and e.objid = o.objid and e.deptype = 'e'
           and e.refclassid = 'pg_extension'::regclass)         as extension,
       o.is_required                                            as is_required
  from object o
 cross join lateral pg_identify_object(o.classid, o.objid, 0) i
  left join pg_proc p on o.classid = 'pg_proc'::regclass and p.oid = o.objid
  left join pg_operator opr on o.classid = 'pg_operator'::regclass and opr.oid = o.objid
  left join pg_class c on o.classid = 'pg_class'::regclass and c.oid = o.objid
  left join pg_type t on o.classid = 'pg_type'::regclass and t.oid = o.objid
 where i.schema is not null and i.schema not in ('pg_catalog', 'pg_toast', 'information_schema')
