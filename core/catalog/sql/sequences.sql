-- The sequences of some schemas with what they are and where they stand; null: never used.
select schemaname::text as schema, sequencename::text as name, data_type::text as data_type,
       increment_by, cycle as is_cycle, last_value
  from pg_sequences
 where schemaname = any (%(schemas)s)
 order by 1, 2
