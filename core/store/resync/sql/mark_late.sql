-- Have tables copied again whose copy is older than the transaction in which they joined a
-- publication. A copy that began at an LSN holds what committed before it: of a transaction only the
-- place of the note is known, so one that changed rows itself may be younger.
insert into replication.resync_due (source_id, schema_name, table_name, reason)
select distinct t.source_id, t.schema_name, t.table_name, %(reason)s
  from unnest(%(oids)s::bigint[], %(schemas)s::text[], %(names)s::text[], %(lsns)s::pg_lsn[],
              %(xids)s::text[], %(changes)s::boolean[])
       as j (oid, schema_name, table_name, lsn, xid, is_changed)
  join replication.source_table t
    on t.source_id = %(source_id)s
   and (t.source_oid = j.oid
        or t.source_oid is null
           and t.schema_name = j.schema_name and t.table_name = j.table_name)
 where t.state = 'ready'
   and t.resync_reason is null
   and not coalesce(pg_visible_in_snapshot(j.xid::xid8, t.start_snapshot),
                    t.start_lsn > j.lsn and not j.is_changed)
    on conflict do nothing
returning schema_name::text, table_name::text
