-- Tables that joined a publication after it was made, and the transactions in which they did. What
-- was before a publication, no slot has read through it.
select r.prrelid::bigint as oid, r.xmin::text::bigint as xid
  from pg_publication_rel r
  join pg_publication p on p.oid = r.prpubid
 where p.pubname = any (array[%(all)s, %(inserts)s]::name[])
   and r.prrelid = any (%(tables)s::oid[])
   and r.xmin <> p.xmin
