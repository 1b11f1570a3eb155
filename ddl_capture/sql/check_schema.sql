-- Refuse a schema that another role prepared. What is there already is kept, with its owner: who owns
-- the log forges rows and has triggers on it that run as the superuser who installs this, and who owns
-- a function of the triggers has it run in all sessions.
do $block$
declare
    v_what text;
begin
    select pg_catalog.format('%s belongs to role "%s"', o.what, r.rolname) into v_what
      from pg_catalog.pg_namespace n
      cross join lateral (
           select 'schema "pgrepl"', n.nspowner
            union all
           select c.oid::pg_catalog.regclass::text, c.relowner
             from pg_catalog.pg_class c where c.relnamespace = n.oid
            union all
           select p.oid::pg_catalog.regprocedure::text, p.proowner
             from pg_catalog.pg_proc p where p.pronamespace = n.oid
            union all
           select t.oid::pg_catalog.regtype::text, t.typowner
             from pg_catalog.pg_type t where t.typnamespace = n.oid
            union all
           select o.oid::pg_catalog.regoperator::text, o.oprowner
             from pg_catalog.pg_operator o where o.oprnamespace = n.oid) o (what, owner)
      join pg_catalog.pg_roles r on r.oid = o.owner
     where n.nspname = 'pgrepl' and not r.rolsuper and r.rolname <> current_user
     limit 1;
    if v_what is not null then
        raise exception using errcode = 'object_not_in_prerequisite_state',
            message = v_what operator(pg_catalog.||) ', who is no superuser and could forge DDL',
            hint = 'Rename or drop it, then run the same command again.';
    end if;
end
$block$;
