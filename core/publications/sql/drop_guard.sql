-- Take away what guard.sql made, unless publications of pgrepl are left that need it.
do $block$
begin
    if exists (select from pg_catalog.pg_publication p
                 join pg_catalog.pg_description d
                   on d.objoid = p.oid and d.classoid = 'pg_catalog.pg_publication'::pg_catalog.regclass
                where d.description like '{"pgrepl":%')
    then
        return;
    end if;
    drop event trigger if exists pgrepl_publications_start;
    drop event trigger if exists pgrepl_publications_drop;
    drop event trigger if exists pgrepl_publications_end;
    drop event trigger if exists pgrepl_publications_joins;
    drop function if exists pgrepl.keep_publications();
    drop function if exists pgrepl.follow_command(text, text);
    drop function if exists pgrepl.texts_in_hand();
    drop function if exists pgrepl.release_unseen(pg_catalog.oid[]);
    drop function if exists pgrepl.is_refused(pg_catalog.oid);
    drop function if exists pgrepl.note_joins();
    drop function if exists pgrepl.note_joined(pg_catalog.oid, boolean);
    drop function if exists pgrepl.keep_identity(pg_catalog.oid);
    drop function if exists pgrepl.change_publication(name, text, pg_catalog.oid, text);
    drop function if exists pgrepl.publications();
    drop table if exists pgrepl.joined_late;
    if not exists (select from pg_catalog.pg_depend
                    where refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
                      and refobjid = pg_catalog.to_regnamespace('pgrepl'))
    then
        drop schema if exists pgrepl;
    end if;
end
$block$;
