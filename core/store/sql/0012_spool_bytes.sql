-- The spool keeps the bytes that the source sent, and says how to read them.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- A payload was text in the target's encoding: one value whose bytes are not valid in it stopped its
-- source. Rows that wait are rewritten, byte for byte; the time it takes is that of reading them.

-- The view is replaced twice instead of dropped, so that the privileges on it stay.
create or replace view replication.messages as
select null::text        as source,
       null::bigint      as seq,
       null::smallint    as bucket,
       null::integer     as part,
       null::bigint      as number,
       null::text        as kind,
       null::pg_lsn      as commit_lsn,
       null::pg_lsn      as end_lsn,
       null::timestamptz as commit_at,
       null::bigint      as xid,
       null::text        as action,
       null::text        as schema_name,
       null::text        as table_name,
       null::json        as columns,
       null::json        as identity;

-- Payloads are compressed by the server: 73 MB of pgbench's changes are 10.0 MB by lz4 for 0.2 s of
-- its CPU, 8.5 MB by pglz for 0.75 s, and cost 0.4 s uncompressed. By ourselves, with zlib at level 1,
-- they would be 7.2 MB and cost 0.6 s less on both sides, but nobody could read them with psql.
-- A server that was built without lz4 has pglz. What is rewritten below is compressed in the same way.
do $$
begin
    if (select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') then
        set local default_toast_compression = 'lz4';
    end if;
end
$$;

alter table replication.raw_messages
    -- Whose messages they are: the output plugin.
    add column format text,
    -- The encoding of the texts in them, which is the source's.
    add column encoding text,
    alter column payload type bytea
        using pg_catalog.convert_to(payload, pg_catalog.getdatabaseencoding());

update replication.raw_messages
   set format = 'wal2json', encoding = pg_catalog.getdatabaseencoding();

-- No default: a receiver that does not know of them must not write.
alter table replication.raw_messages
    alter column format set not null,
    alter column encoding set not null;

alter table replication.parked_message
    add column format text,
    add column encoding text,
    alter column payload type bytea
        using pg_catalog.convert_to(payload, pg_catalog.getdatabaseencoding());

update replication.parked_message
   set format = 'wal2json', encoding = pg_catalog.getdatabaseencoding();

alter table replication.parked_message
    alter column format set not null,
    alter column encoding set not null;

do $$
begin
    if (select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression') then
        alter table replication.raw_messages alter column payload set compression lz4;
        alter table replication.parked_message alter column payload set compression lz4;
    end if;
end
$$;

comment on table replication.raw_messages is
    'The spool: messages of received transactions, one row per bucket of a segment. For people there'
    ' is the view replication.messages.';

-- A line that is not text in the encoding it should have is shown with each of its bytes beyond
-- ASCII as a backslash and three octal digits, as PostgreSQL's "escape" format does.
create function replication.payload_lines(payload bytea, encoding text)
returns table (number bigint, line text)
language plpgsql stable strict set search_path = pg_catalog as $$
declare
    whole   text;
    escaped text;
begin
    begin
        whole := convert_from(payload, encoding);
    exception when character_not_in_repertoire or untranslatable_character then
        whole := null;
    end;
    if whole is not null then
        return query
        select l.number, l.line
          from string_to_table(whole, E'\n') with ordinality as l (line, number);
        return;
    end if;
    for number, escaped in
        select l.number, l.line
          from string_to_table(encode(payload, 'escape'), E'\n') with ordinality as l (line, number)
    loop
        begin
            line := convert_from(decode(escaped, 'escape'), encoding);
        exception when character_not_in_repertoire or untranslatable_character then
            -- "escape" doubles the backslashes that JSON has, which must stay, and JSON wants those
            -- doubled that "escape" brings. No line has a raw control character.
            line := replace(replace(replace(escaped, '\\', E'\x01'), '\', '\\'), E'\x01', '\');
        end;
        return next;
    end loop;
end
$$;

comment on function replication.payload_lines is
    'The lines of a payload of wal2json as text, for the view replication.messages.';

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
 where l.line ->> 'action' <> 'B';
