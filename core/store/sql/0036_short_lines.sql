-- Lines of wal2json may be in the spool without what they have in common, as format
-- "wal2json-short"; pgrepl.decoding.wal2json.short says how. People see them as they were.

create function replication.expand_lines(payload bytea) returns bytea
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    v_record   text;
    v_patterns text[] := '{}';
    v_pattern  text;
    v_values   text[];
    -- The values of the last begin line: where another line has none, it has the same.
    v_begin    text[] := '{}';
    v_lines    text[] := '{}';
begin
    if substring(payload from 1 for 1) <> '#'::bytea then
        return payload;
    end if;
    -- Bytes beyond ASCII as digits, so that no encoding is in the way; tabs and newlines stay.
    for v_record in
        select r.record
          from string_to_table(encode(payload, 'escape'), E'\n') with ordinality as r (record, number)
         where r.number > 1
         order by r.number
    loop
        if v_record like '=%' then
            v_patterns := v_patterns || substr(v_record, 2);
            continue;
        elsif v_record like '{%' then
            v_lines := v_lines || v_record;
            continue;
        end if;
        v_values := string_to_array(v_record, E'\t');
        v_pattern := v_patterns[v_values[1]::integer + 1];
        for v_place in 2 .. cardinality(v_values)
        loop
            if v_values[v_place] = '' then
                v_values[v_place] := v_begin[v_place];
            end if;
        end loop;
        if v_pattern like '{"action":"B"%' then
            v_begin := v_values;
        end if;
        v_lines := v_lines || (
            select string_agg(p.piece || coalesce(p.value, ''), '' order by p.number)
              from unnest(string_to_array(v_pattern, E'\t'), v_values[2:])
                   with ordinality as p (piece, value, number));
    end loop;
    return decode(array_to_string(v_lines, E'\n'), 'escape');
end
$$;

comment on function replication.expand_lines is
    'The lines of a payload of wal2json, short or not, for the view replication.messages.';

create or replace view replication.messages as
with lines as (
    select m.source_id, m.seq, m.bucket, m.part, m.kind, l.number, l.line::json as line,
           -- A begin line opens the lines of its transaction.
           pg_catalog.max(l.number) filter (where l.line like '{"action":"B"%')
               over (partition by m.source_id, m.seq, m.bucket, m.part order by l.number) as opener
      from replication.raw_messages m
     cross join lateral
           replication.payload_lines(replication.expand_lines(m.payload), m.encoding) as l
     where m.format in ('wal2json', 'wal2json-short')
)
select s.name                                  as source,
       l.seq, l.bucket, l.part, l.number, l.kind,
       (b.line ->> 'lsn')::pg_lsn              as commit_lsn,
       (b.line ->> 'nextlsn')::pg_lsn          as end_lsn,
       (b.line ->> 'timestamp')::timestamptz   as commit_at,
       (l.line ->> 'xid')::bigint              as xid,
       l.line ->> 'action'                     as action,
       l.line ->> 'schema'                     as schema_name,
       l.line ->> 'table'                      as table_name,
       l.line -> 'columns'                     as columns,
       l.line -> 'identity'                    as identity
  from lines l
  join replication.source s using (source_id)
  join lines b on (b.source_id, b.seq, b.bucket, b.part, b.number)
                = (l.source_id, l.seq, l.bucket, l.part, l.opener)
 where l.line ->> 'action' <> 'B'
 union all
select s.name, m.seq, m.bucket, m.part, c.number, m.kind, c.commit_lsn,
       -- A begin message does not say it; the end of a segment of one transaction is its own.
       case when m.kind = 'serial' and m.is_last then m.last_lsn end,
       c.commit_at, c.xid, c.action, c.schema_name, c.table_name, c.columns, c.identity
  from replication.raw_messages m
  join replication.source s using (source_id)
 cross join lateral replication.pgoutput_changes(m.payload, m.encoding) as c
 where m.format in ('pgoutput', 'upsert');
