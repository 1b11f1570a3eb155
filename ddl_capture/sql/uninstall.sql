-- Take everything away that install.sql made, after drop_triggers.sql. Run as a superuser in the
-- source database.
drop function if exists pgrepl.ddl_capture();
drop function if exists pgrepl.ddl_context();
drop function if exists pgrepl.table_definition(oid);
drop table if exists pgrepl.ddl_log;
drop table if exists pgrepl.capture;
drop schema if exists pgrepl;
