-- One row per owner of the tables given and schema that they are in: whether the role will be able
-- to read what the owner makes from now on, there and in any schema, by default privileges.
with grants (owner, namespace, kind) as (
    select d.defaclrole, d.defaclnamespace, d.defaclobjtype
      from pg_default_acl d
     cross join aclexplode(d.defaclacl) a
     where a.privilege_type = case d.defaclobjtype when 'n' then 'USAGE' else 'SELECT' end
       and (a.grantee = 0 or pg_has_role(a.grantee, 'USAGE'))
)
select o.rolname::text  as owner,
       n.nspname::text  as schema,
       own.is_ours or exists (select from grants g where g.owner = o.oid and g.kind = 'r'
                                 and g.namespace in (0, n.oid)) as opens_tables,
       own.is_ours or exists (select from grants g where g.owner = o.oid and g.kind = 'S'
                                 and g.namespace in (0, n.oid)) as opens_sequences,
       own.is_ours or (select count(distinct g.kind) = 3 from grants g
                        where g.owner = o.oid and g.namespace = 0
                          and g.kind in ('r', 'S', 'n'))        as opens_schemas
  from (select distinct relowner, relnamespace from pg_class where oid = any (%(tables)s::oid[])) c
  join pg_roles o on o.oid = c.relowner
  join pg_namespace n on n.oid = c.relnamespace
 cross join lateral (select pg_has_role(o.oid, 'USAGE') as is_ours) own
 order by 1, 2
