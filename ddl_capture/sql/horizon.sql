-- Remember that every transaction from now on is captured. Runs after the commit of install.sql, or
-- of the command that enabled the triggers: a transaction that began before may have run DDL unseen.
-- A capture that was renewed and never off keeps what it knows, but its triggers are new ones.
update pgrepl.capture
   set horizon = pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
 where horizon = '18446744073709551615' or complete_lsn is not null
