-- What strings of a database are compared, changed to upper case and encoded by. The same query runs on
-- both sides. The columns with the locale of ICU have another name in each second version.
select pg_catalog.concat_ws(
           '/', pg_catalog.pg_encoding_to_char(d.encoding), d.datlocprovider, d.datcollate,
           d.datctype, pg_catalog.to_jsonb(d)->>'daticulocale', pg_catalog.to_jsonb(d)->>'datlocale')
  from pg_catalog.pg_database d
 where d.datname = pg_catalog.current_database()
