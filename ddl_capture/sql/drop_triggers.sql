-- Take away the event triggers of the capture. Installing begins with it, or what it does next would
-- be captured itself; others see the old triggers until the new ones are there.
do $block$
declare
    v_name text;
begin
    for v_name in select evtname from pg_catalog.pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$'
    loop
        execute pg_catalog.format('drop event trigger %I', v_name);
    end loop;
end
$block$;
