-- Disable the event triggers of the capture: those that there are, or an incomplete capture could not be
-- switched off.
do $block$
declare
    v_name text;
begin
    for v_name in select evtname from pg_catalog.pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$'
    loop
        execute pg_catalog.format('alter event trigger %I disable', v_name);
    end loop;
end
$block$;
