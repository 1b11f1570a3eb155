-- What ALTER ROLE and ALTER DATABASE set output_plugin_libraries to for this session, the one that
-- wins first. Every role may read this, also where the setting itself is for superusers only.
select split_part(c.entry, '=', 2) as value
  from pg_db_role_setting s
  join pg_roles r on r.rolname = current_user
  join pg_database d on d.datname = current_database()
 cross join unnest(s.setconfig) as c (entry)
 where s.setrole in (0, r.oid)
   and s.setdatabase in (0, d.oid)
   and split_part(c.entry, '=', 1) = 'output_plugin_libraries'
 order by s.setrole <> 0 desc, s.setdatabase <> 0 desc
 limit 1
