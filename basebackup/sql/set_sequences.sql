-- Give sequences of the target their values, those whose limits allow it.
select s.schemaname::text, s.sequencename::text,
       setval(format('%%I.%%I', s.schemaname, s.sequencename)::regclass, w.value, w.is_called)
  from unnest(%(schemas)s::text[], %(sequences)s::text[], %(values)s::bigint[],
              %(called)s::boolean[]) w (schema_name, sequence_name, value, is_called)
  join pg_sequences s on (s.schemaname, s.sequencename) = (w.schema_name, w.sequence_name)
 where w.value between s.min_value and s.max_value
