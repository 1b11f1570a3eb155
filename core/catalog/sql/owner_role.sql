-- One row: the role that is to own a source's schemas on the target, as far as it exists, and what
-- the role of this session may do with it.
select r.oid is not null                                   as exists,
       coalesce(r.rolname = current_user, false)           as is_self,
       -- why it is none that pgrepl made, or that was made for it
       case when r.rolcanlogin then 'it can log in'
            when r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication
                 or r.rolbypassrls then 'it has attributes'
            when exists (select from pg_auth_members m where m.member = r.oid)
                 then 'it is a member of another role'
            -- who made pgrepl a member of it knows what for
            when not exists (select from pg_auth_members m
                              where m.roleid = r.oid and m.member = me.oid)
                 and exists (
                 select from pg_auth_members m
                   -- PostgreSQL 16 makes who made a role its member, to administer it only
                  where m.roleid = r.oid and m.member <> me.oid
                    and (coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
                         or coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)))
                 then 'it has other members' end           as foreign_reason,
       r.oid is not null
           and pg_has_role(r.oid, 'USAGE')
           -- before PostgreSQL 16 every member may give its objects away to the role
           and pg_has_role(r.oid, case when current_setting('server_version_num')::integer >= 160000
                                       then 'SET' else 'MEMBER' end) as is_usable,
       me.rolinherit                                       as inherits,
       me.rolsuper or me.rolcreaterole                     as may_create
  from pg_roles me
  left join pg_roles r on r.rolname = %(role)s
 where me.rolname = current_user
