-- Remember that every transaction from now on is captured. Runs after the commit of install.sql, or
-- of the command that enabled the triggers: a transaction that began before may have run DDL unseen.
insert into pgrepl.capture (installed_at, horizon)
values (pg_catalog.now(), pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()))
on conflict (is_only_row) do update
   set (installed_at, horizon, complete_lsn) = (excluded.installed_at, excluded.horizon, null)
