-- What waits for a group of parked tables, in the order in which it stood in the spool. A part of the
-- spool that is parallel holds changes of tables that do not depend on one another.
select format, encoding, payload, change_count
  from (select m.format, m.encoding, m.payload, m.change_count, m.seq, m.part, m.piece
          from replication.parked_message m
          join unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)
            on (w.schema_name, w.table_name) = (m.schema_name, m.table_name)
         where m.source_id = %(source)s
         union all
        select d.format, d.encoding, d.payload, null, d.seq, d.part, d.piece
          from replication.ddl_pending d
         where d.source_id = %(source)s and d.group_id = %(group)s) waiting
 order by seq, part, piece
