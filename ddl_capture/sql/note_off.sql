-- Remember from where on DDL goes unseen, in the transaction that disables the triggers.
do $block$
begin
    update pgrepl.capture
       set (horizon, complete_lsn, off_at, off_lsn)
           = ('18446744073709551615', null, pg_catalog.now(), pg_catalog.pg_current_wal_insert_lsn())
     where horizon <> '18446744073709551615';
exception
    when others then
        -- Whatever is broken there, it must be possible to switch it off.
        raise warning 'pgrepl: cannot note that the capture is off: %', sqlerrm;
end
$block$;
