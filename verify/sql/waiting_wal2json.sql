-- The tables that have changes in a slot up to a position, and how many messages were looked at in
-- all; the slot stays as it is.
with messages as materialized (
    select c.data::jsonb as line
      from pg_logical_slot_peek_changes(%(slot)s, %(until)s, %(limit)s,
                                        'format-version', '2', 'include-types', 'false') c)
select c.schema, c.name, t.count
  from (select count(*) from messages) t (count)
  left join (select distinct m.line->>'schema', m.line->>'table'
               from messages m
              where m.line->>'action' in ('I', 'U', 'D', 'T')) c (schema, name) on true
