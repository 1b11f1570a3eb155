-- What this database has of its own under names that PostgreSQL uses as well: an expression may mean
-- these, and means PostgreSQL's where they are missing. What an extension has for types of its own
-- can only be meant where they are.
select json_build_object(
    'functions', (
        select coalesce(json_agg(distinct p.proname), '[]')
          from pg_proc p
         where p.oid >= 16384
           and exists (select from pg_proc b where b.proname = p.proname and b.oid < 16384)
           and not (exists (select from pg_depend d
                             where d.classid = 'pg_proc'::regclass and d.objid = p.oid
                               and d.deptype = 'e')
                    and exists (select from unnest(p.proargtypes::oid[]) t (oid)
                                 where t.oid >= 16384))),
    'operators', (
        select coalesce(json_agg(distinct o.oprname), '[]')
          from pg_operator o
         where o.oid >= 16384
           and exists (select from pg_operator b where b.oprname = o.oprname and b.oid < 16384)
           and not (exists (select from pg_depend d
                             where d.classid = 'pg_operator'::regclass and d.objid = o.oid
                               and d.deptype = 'e')
                    and (o.oprleft >= 16384 or o.oprright >= 16384))),
    'has_casts', exists (
        select from pg_cast c
         where c.oid >= 16384
           -- nor that of a range type to its multirange type
           and not exists (select from pg_depend d
                            where d.classid = 'pg_cast'::regclass and d.objid = c.oid
                              and d.deptype in ('e', 'i'))))::text
