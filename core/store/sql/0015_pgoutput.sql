-- A source may be decoded by pgoutput too, whose messages are bytes and no lines of text.

alter table replication.source add column plugin text not null default 'wal2json';
comment on column replication.source.plugin is 'The output plugin of its slot.';

alter table replication.source_table add column unsent_changes bigint not null default 0;
comment on column replication.source_table.unsent_changes is
    'How many of its rows the source had updated or deleted when the copy began, if it cannot send'
    ' that: more of them are a loss.';

-- The bytes of an integer in network order, from a place on that counts from 0.
create function replication.read_integer(data bytea, place integer, size integer) returns bigint
language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select ('x' || lpad(encode(substring(data from place + 1 for size), 'hex'), 16, '0'))::bit(64)::bigint
$$;

-- A text in an encoding, or its bytes with escapes where it is none.
create function replication.read_text(data bytea, encoding text) returns text
language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
begin
    return convert_from(data, encoding);
exception when character_not_in_repertoire or untranslatable_character then
    -- "escape" doubles the backslashes that the text has.
    return replace(encode(data, 'escape'), '\\', '\');
end
$$;

create function replication.pgoutput_changes(
    payload bytea, encoding text,
    out number bigint, out commit_lsn pg_lsn, out commit_at timestamptz, out xid bigint,
    out action text, out schema_name text, out table_name text, out columns json,
    out identity json)
returns setof record language plpgsql stable strict set search_path = pg_catalog, pg_temp as $$
declare
    -- Read once, however it is stored.
    v_data     bytea := payload || ''::bytea;
    v_count    bigint := replication.read_integer(v_data, 0, 4);
    v_place    bigint := 4 * (v_count + 1);
    v_message  bytea;
    -- By oid: schema, table, the columns, and of each column whether it is of the identity.
    v_tables   jsonb := '{}';
    v_table    jsonb;
    v_names    jsonb;
    v_keys     jsonb;
    v_at       integer;
    v_columns  bigint;
    v_end      integer;
    v_which    text;
    v_list     json[];
    v_key_list json[];
    v_value    json;
begin
    for v_number in 1 .. v_count
    loop
        v_end := replication.read_integer(v_data, 4 * v_number, 4);
        v_message := substring(v_data from v_place::integer + 1 for v_end);
        v_place := v_place + v_end;
        action := chr(get_byte(v_message, 0));
        if action = 'B' then
            commit_lsn := (to_hex(replication.read_integer(v_message, 1, 4)) || '/'
                           || to_hex(replication.read_integer(v_message, 5, 4)))::pg_lsn;
            commit_at := '2000-01-01 00:00:00+00'::timestamptz
                         + replication.read_integer(v_message, 9, 8) * interval '1 microsecond';
            xid := replication.read_integer(v_message, 17, 4);
            continue;
        elsif action = 'R' then
            v_at := 5;
            v_names := '[]';
            for v_part in 0 .. 1
            loop
                v_end := position('\x00'::bytea in substring(v_message from v_at + 1)) - 1;
                v_names := v_names || to_jsonb(replication.read_text(
                    substring(v_message from v_at + 1 for v_end), encoding));
                v_at := v_at + v_end + 1;
            end loop;
            v_table := jsonb_build_object('schema', v_names -> 0, 'table', v_names -> 1);
            v_names := '[]';
            v_keys := '[]';
            v_columns := replication.read_integer(v_message, v_at + 1, 2);
            v_at := v_at + 3;
            for v_column in 1 .. v_columns
            loop
                v_keys := v_keys || to_jsonb(get_byte(v_message, v_at) & 1 = 1);
                v_at := v_at + 1;
                v_end := position('\x00'::bytea in substring(v_message from v_at + 1)) - 1;
                v_names := v_names || to_jsonb(replication.read_text(
                    substring(v_message from v_at + 1 for v_end), encoding));
                v_at := v_at + v_end + 9;
            end loop;
            v_tables := v_tables || jsonb_build_object(
                encode(substring(v_message from 2 for 4), 'hex'),
                v_table || jsonb_build_object('names', v_names, 'keys', v_keys));
            continue;
        end if;
        v_at := case action when 'T' then 6 else 1 end;
        v_table := v_tables -> encode(substring(v_message from v_at + 1 for 4), 'hex');
        number := v_number;
        schema_name := v_table ->> 'schema';
        table_name := v_table ->> 'table';
        columns := null;
        identity := null;
        v_at := 5;
        while action <> 'T' and v_at < length(v_message)
        loop
            v_which := chr(get_byte(v_message, v_at));
            v_columns := replication.read_integer(v_message, v_at + 1, 2);
            v_at := v_at + 3;
            v_list := '{}';
            v_key_list := '{}';
            for v_column in 0 .. v_columns - 1
            loop
                v_value := null;
                case chr(get_byte(v_message, v_at))
                    when 't' then
                        v_end := replication.read_integer(v_message, v_at + 1, 4);
                        v_value := json_build_object(
                            'name', v_table -> 'names' -> v_column::integer,
                            'value', replication.read_text(
                                substring(v_message from v_at + 6 for v_end), encoding));
                        v_at := v_at + 5 + v_end;
                    when 'n' then
                        v_value := json_build_object(
                            'name', v_table -> 'names' -> v_column::integer, 'value', null);
                        v_at := v_at + 1;
                    else
                        -- Unchanged and stored out of line: not sent.
                        v_at := v_at + 1;
                end case;
                if v_value is not null then
                    v_list := v_list || v_value;
                    if v_table -> 'keys' ->> v_column::integer = 'true' then
                        v_key_list := v_key_list || v_value;
                    end if;
                end if;
            end loop;
            if v_which = 'N' then
                columns := array_to_json(v_list);
            end if;
            if action <> 'I' and identity is null then
                identity := array_to_json(v_key_list);
            end if;
        end loop;
        return next;
    end loop;
end
$$;

comment on function replication.pgoutput_changes is
    'The changes of a payload of pgoutput, for the view replication.messages.';

create or replace view replication.messages as
with lines as (
    select m.source_id, m.seq, m.bucket, m.part, m.kind, l.number, l.line::json as line,
           -- A begin line opens the lines of its transaction.
           pg_catalog.max(l.number) filter (where l.line like '{"action":"B"%')
               over (partition by m.source_id, m.seq, m.bucket, m.part order by l.number) as opener
      from replication.raw_messages m
     cross join lateral replication.payload_lines(m.payload, m.encoding) as l
     where m.format = 'wal2json'
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
 where m.format = 'pgoutput';
