-- Of each name that an expression uses, whether the target has something of that name, and whether
-- all that it has is PostgreSQL's own or an extension's; types and collations may be the source's.
select w.kind, w.schema_name, w.name,
       count(o.oid) > 0 as is_there,
       coalesce(bool_and(
           o.oid < 16384
           or exists (select from pg_catalog.pg_depend d
                       where d.classid = o.classid and d.objid = o.oid and d.deptype = 'e')
           or o.is_harmless and w.schema_name = any (%(own_schemas)s::text[])), false) as is_allowed
  from unnest(%(kinds)s::text[], %(schemas)s::text[], %(names)s::text[])
       as w (kind, schema_name, name)
  left join pg_catalog.pg_namespace n on n.nspname = w.schema_name
  left join lateral (
       select p.oid, p.tableoid as classid, false as is_harmless
         from pg_catalog.pg_proc p
        where w.kind = 'function' and p.pronamespace = n.oid and p.proname = w.name
        union all
       select p.oid, p.tableoid, false
         from pg_catalog.pg_operator p
        where w.kind = 'operator' and p.oprnamespace = n.oid and p.oprname = w.name
        union all
       select p.oid, p.tableoid, false
         from pg_catalog.pg_opclass p
        where w.kind = 'operator class' and p.opcnamespace = n.oid and p.opcname = w.name
        union all
       -- a base type has functions of its own that read and print its values
       select p.oid, p.tableoid, p.typtype <> 'b' or p.typelem <> 0 and p.typcategory = 'A'
         from pg_catalog.pg_type p
        where w.kind = 'type' and p.typnamespace = n.oid and p.typname = w.name
        union all
       select p.oid, p.tableoid, true
         from pg_catalog.pg_collation p
        where w.kind = 'collation' and p.collnamespace = n.oid and p.collname = w.name) o on true
 group by w.kind, w.schema_name, w.name
