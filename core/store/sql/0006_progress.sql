-- The bindings of target time to source LSN: what keeps them true, and how they are asked.
--
-- Run by pgrepl.store.migrations in one transaction with its row in replication.schema_version.
-- The functions for readers run with the rights of their owner and show positions only, so that a
-- reader needs no more than USAGE on the schema.

-- Guards replication.binding whoever writes: append-only, strictly increasing in time and LSN, and
-- never ahead of a shard.
create function replication.check_binding() returns trigger
language plpgsql set search_path = pg_catalog as $$
declare
    last   replication.binding;
    waits  pg_lsn;
begin
    if tg_op = 'DELETE' then
        -- Retention takes old ones. The newest goes only with its source.
        if exists (select from replication.source where source_id = old.source_id)
           and not exists (select from replication.binding
                            where source_id = old.source_id and at > old.at) then
            raise exception 'the newest binding of source % stays', old.source_id
                using errcode = 'restrict_violation';
        end if;
        return old;
    elsif tg_op <> 'INSERT' then
        raise exception 'bindings never change' using errcode = 'restrict_violation';
    end if;

    -- Publishers take turns, so that the newest one seen is the newest one there is.
    perform from replication.source where source_id = new.source_id for no key update;
    select * into last from replication.binding
     where source_id = new.source_id order by at desc limit 1;
    if new.at <= last.at or new.lsn <= last.lsn then
        raise exception 'binding of source % at % to % does not follow % to %',
            new.source_id, new.at, new.lsn, last.at, last.lsn
            using errcode = 'check_violation';
    end if;

    -- The first segment that some shard has not applied: nothing of it may be promised.
    select first_lsn into waits from replication.raw_messages
     where source_id = new.source_id
       and seq > coalesce((select min(applied_seq) from replication.shard_progress
                            where source_id = new.source_id), 0)
     order by seq limit 1;
    if new.lsn > waits then
        raise exception 'binding of source % to % runs ahead of a shard, which waits at %',
            new.source_id, new.lsn, waits
            using errcode = 'check_violation';
    end if;
    return new;
end
$$;

create trigger check_binding
before insert or update or delete on replication.binding
for each row execute function replication.check_binding();

create trigger check_binding_truncate
before truncate on replication.binding
for each statement execute function replication.check_binding();

-- Sessions that apply changes have session_replication_role = replica, which skips plain triggers.
alter table replication.binding enable always trigger check_binding;
alter table replication.binding enable always trigger check_binding_truncate;

create function replication.source_id(source text) returns integer
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
    found_id integer;
begin
    select s.source_id into found_id from replication.source s where s.name = source;
    if found_id is null then
        raise exception 'there is no source "%"', source
            using errcode = 'undefined_object', hint = 'replication.source lists them.';
    end if;
    return found_id;
end
$$;

comment on function replication.source_id is 'The number of a source by its name.';

create function replication.lsn_as_of(source text, at timestamptz) returns pg_lsn
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
    wanted integer := replication.source_id(source);
begin
    return (select b.lsn from replication.binding b
             where b.source_id = wanted and b.at <= lsn_as_of.at order by b.at desc limit 1);
end
$$;

comment on function replication.lsn_as_of is
    'The source LSN that the target showed at a time; null before the oldest binding kept. For times'
    ' after the newest binding the answer may still move on.';

create function replication.time_of(source text, lsn pg_lsn) returns timestamptz
language plpgsql stable security definer set search_path = pg_catalog as $$
declare
    wanted integer := replication.source_id(source);
begin
    return (select b.at from replication.binding b
             where b.source_id = wanted and b.lsn >= time_of.lsn order by b.lsn limit 1);
end
$$;

comment on function replication.time_of is
    'Since when the target shows everything that committed before a source LSN; null while it does'
    ' not. For LSNs before the oldest binding kept: the time of that one.';

create function replication.wait_for(source text, lsn pg_lsn, timeout interval default '30 s')
returns boolean
-- Volatile in read committed: each statement of it sees what has been committed by then.
language plpgsql volatile security definer set search_path = pg_catalog as $$
declare
    wanted   integer := replication.source_id(source);
    deadline timestamptz := clock_timestamp() + timeout;
    pause    double precision := 0.005;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'replication.wait_for needs a transaction in read committed'
            using errcode = 'invalid_transaction_state',
                  hint = 'Wait first, then begin the transaction that reads.';
    end if;
    loop
        if exists (select from replication.binding b
                    where b.source_id = wanted and b.lsn >= wait_for.lsn) then
            return true;
        end if;
        pause := least(pause * 1.5, 0.1, extract(epoch from deadline - clock_timestamp()));
        if pause <= 0 then
            return false;
        end if;
        perform pg_sleep(pause);
    end loop;
end
$$;

comment on function replication.wait_for is
    'Waits until the target shows everything that committed before a source LSN: true when it does,'
    ' false after the timeout. The next statement reads it.';
