-- What the values of the expressions in a rule depend on besides their arguments: which functions, not
-- immutable ones, read the constants in it, however deep in arrays, ranges, domains and composite
-- types; the rule itself; and whether it converts a value by way of its text.
with recursive
rule (action) as (
    select w.ev_action::text
      from pg_catalog.pg_rewrite w
      join pg_catalog.pg_class c on c.oid = w.ev_class
     where c.relnamespace = pg_catalog.pg_my_temp_schema() and c.relname = %(place)s::text
       and w.rulename = %(rule)s::text
),
read_type (oid) as (
    select m[1]::oid
      from rule
     cross join lateral pg_catalog.regexp_matches(action, ':consttype (\d+)', 'g') m
     union
    select p.oid
      from read_type r
      join pg_catalog.pg_type t on t.oid = r.oid
      left join pg_catalog.pg_range g on r.oid in (g.rngtypid, g.rngmultitypid)
      left join pg_catalog.pg_attribute a
             on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
     cross join lateral (values (t.typbasetype), (t.typelem), (g.rngsubtype), (a.atttypid)) p (oid)
     where p.oid <> 0
)
select array(select distinct f.proname::text
               from read_type r
               join pg_catalog.pg_type t on t.oid = r.oid
               join pg_catalog.pg_proc f on f.oid = t.typinput
              where f.provolatile <> 'i'
                -- these read by the functions of the types inside
                and f.oid not in ('pg_catalog.array_in'::regproc, 'pg_catalog.domain_in'::regproc,
                                  'pg_catalog.multirange_in'::regproc,
                                  'pg_catalog.range_in'::regproc, 'pg_catalog.record_in'::regproc)
              order by 1),
       (select action from rule),
       exists (select from rule where action ~ 'COERCEVIAIO')
