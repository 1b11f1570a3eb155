-- Take everything away that install.sql made, after drop_triggers.sql has committed: nobody's DDL
-- may wait behind this. Run as a superuser in the source database.
drop table if exists pgrepl.ddl_log;
drop table if exists pgrepl.capture;
drop function if exists pgrepl.ddl_capture();
drop function if exists pgrepl.ddl_context();
drop function if exists pgrepl.ddl_calls();
drop function if exists pgrepl.table_definition(oid);
drop function if exists pgrepl.plain_table_definition(oid);
drop function if exists pgrepl.locale();
drop function if exists pgrepl.switch(boolean);
drop function if exists pgrepl.prune();
do $block$
begin
    drop schema if exists pgrepl;
exception
    when dependent_objects_still_exist then
        raise notice 'schema "pgrepl" has objects that are not owned by pgrepl, so it stays';
end
$block$;
