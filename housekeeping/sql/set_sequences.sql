-- Bring sequences up to values, and never back: of one that counts down, down to them.
select n.name as sequence, setval(n.name::regclass, w.value)
  from unnest(%(schemas)s::text[], %(sequences)s::text[], %(values)s::bigint[])
       w (schema_name, sequence_name, value)
  join pg_sequences s on (s.schemaname, s.sequencename) = (w.schema_name, w.sequence_name)
 cross join lateral (
       select quote_ident(s.schemaname) || '.' || quote_ident(s.sequencename) as name) n
 where w.value between s.min_value and s.max_value
   and (s.last_value is null
        or case when s.increment_by > 0 then s.last_value < w.value else s.last_value > w.value end)
