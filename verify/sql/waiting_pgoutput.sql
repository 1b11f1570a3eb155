-- As waiting_wal2json.sql. A table has a description before its first change, and another one for
-- each name that it had; of TRUNCATE there may be several in one message.
with messages as materialized (
    select c.data, chr(get_byte(c.data, 0)) as kind
      from pg_logical_slot_peek_binary_changes(%(slot)s, %(until)s, %(limit)s, 'proto_version', '1',
                                               'publication_names', %(publications)s) c),
relations as (
    select distinct substring(m.data from 2 for 4) as relation,
           substring(m.data from 6 for 200)        as names
      from messages m
     where m.kind = 'R'),
changed as (
    select substring(m.data from 2 for 4) as relation from messages m where m.kind in ('I', 'U', 'D')
     union
    select substring(m.data from i for 4)
      from messages m cross join generate_series(7, length(m.data), 4) i
     where m.kind = 'T')
select n.schema, n.name, t.count
  from (select count(*) from messages) t (count)
  left join (
       select distinct convert_from(substring(r.names for z.at), getdatabaseencoding()),
              convert_from(substring(rest.names for position('\x00'::bytea in rest.names) - 1),
                           getdatabaseencoding())
         from changed c
         join relations r using (relation)
        cross join lateral (select position('\x00'::bytea in r.names) - 1) z (at)
        cross join lateral (select substring(r.names from z.at + 2)) rest (names)) n (schema, name)
    on true
