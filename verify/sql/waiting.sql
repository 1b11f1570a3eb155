-- The tables that have changes in a slot up to a position, and how many; the slot stays as it is.
select d.line->>'schema', d.line->>'table', count(*)
  from pg_logical_slot_peek_changes(%(slot)s, %(until)s, %(limit)s,
                                    'format-version', '2', 'include-types', 'false') c
 cross join lateral (select c.data::jsonb) d (line)
 where d.line->>'action' in ('I', 'U', 'D', 'T')
 group by 1, 2
