-- Whether the value of a node tree depends on the rules of another locale than C, and whether on the
-- encoding: it has to do with text at all. These functions of PostgreSQL's own take a collation and do not
-- look at it, as long as equal means equal bytes.
select exists (
           select
             from pg_catalog.regexp_matches(
                      %(tree)s, '(:(?:funcid|opfuncid) (\d+) [^{}]*)?:inputcollid (\d+)', 'g') m
             join pg_catalog.pg_collation l on l.oid = m[3]::oid
             left join pg_catalog.pg_proc f
                    on f.oid = m[2]::oid and f.pronamespace = 'pg_catalog'::regnamespace
            where l.collname not in ('C', 'POSIX', 'ucs_basic')
              and not coalesce(
                  l.collisdeterministic
                  and (f.proname in ('anytextcat', 'textanycat') or f.prosrc = any (array[
                      'ascii', 'binary_decode', 'binary_encode', 'bpchar', 'bpchar_name', 'bpchareq',
                      'bpcharlen', 'bpcharne', 'bpcharoctetlen', 'btrim', 'btrim1', 'chr',
                      'extract_date', 'extract_interval', 'extract_time', 'extract_timestamp',
                      'hashtext', 'hashtextextended', 'interval_part', 'interval_trunc',
                      'json_extract_path', 'json_extract_path_text', 'json_object_field',
                      'json_object_field_text', 'jsonb_exists', 'jsonb_extract_path',
                      'jsonb_extract_path_text', 'jsonb_object_field', 'jsonb_object_field_text',
                      'lpad', 'ltrim', 'ltrim1', 'md5_text', 'name_bpchar', 'name_text', 'nameeq',
                      'nameeqtext', 'namene', 'namenetext', 'pg_convert_to', 'repeat',
                      'replace_text', 'rpad', 'rtrim', 'rtrim1', 'split_part', 'text_left',
                      'text_name', 'text_reverse', 'text_right', 'text_starts_with', 'text_substr',
                      'text_substr_no_len', 'textcat', 'texteq', 'texteqname', 'textlen', 'textlike',
                      'textne', 'textnename', 'textnlike', 'textoctetlen', 'textoverlay',
                      'textoverlay_no_len', 'textpos', 'time_part', 'timestamp_part',
                      'timestamp_trunc', 'timestamp_zone', 'timestamptz_zone', 'translate', 'varchar'
                  ])), false))
       or %(tree)s::text ~ ':inputcollids \(o[ 0]* [1-9]',
       %(tree)s::text ~ ':(inputcollid|funccollid|opcollid) [1-9]|:inputcollids|COERCEVIAIO'
