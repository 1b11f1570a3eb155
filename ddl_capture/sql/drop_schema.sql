-- Take the schema of the capture away, once everything is gone that install.sql made in it. Run as a
-- superuser in the source database.
do $block$
begin
    drop schema if exists pgrepl;
exception
    when dependent_objects_still_exist then
        raise notice 'schema "pgrepl" has objects that are not owned by pgrepl, so it stays';
end
$block$;
