-- Forget a table that was dropped on the source and that nobody copies or is going to.
delete from replication.source_table t
 where t.source_id = %(source_id)s
   and t.schema_name = %(schema)s
   and t.table_name = %(name)s
   and t.state = 'pending'
   and not exists (select from replication.resync_due d
                    where (d.source_id, d.schema_name, d.table_name)
                          = (t.source_id, t.schema_name, t.table_name))
   and not exists (select from replication.resync r
                    where (r.source_id, r.schema_name, r.table_name)
                          = (t.source_id, t.schema_name, t.table_name))
   and (t.lost_lsn is null
        or t.lost_lsn <= %(lsn)s
        or not %(is_made_again)s
           and exists (select from replication.raw_messages m
                        where m.source_id = t.source_id and m.kind = 'serial'
                          and m.first_lsn <= %(lsn)s and m.last_lsn >= t.lost_lsn))
