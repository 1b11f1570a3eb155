-- Tables that existed before they joined a publication: what they changed before was not sent.
select j.relation::bigint as oid,
       n.nspname::text    as schema,
       c.relname::text    as name,
       j.lsn,
       j.xid::text        as xid,
       j.is_changed
  from pgrepl.joined_late j
  join pg_class c on c.oid = j.relation
  join pg_namespace n on n.oid = c.relnamespace
