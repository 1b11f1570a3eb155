"""What happens to machines at night, each a function over the scene."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

import psycopg
from psycopg.sql import SQL, Identifier

from pgrepl.errors import ConfigError
from pgrepl.throwaway import Cluster
from tests.soak.chaos.patience import PATIENCE_S, patiently
from tests.soak.chaos.scene import Scene, Source
from tests.support.database import Database
from tests.support.machine.small_disk import filled
from tests.support.waiting import wait_until

Fault = Callable[[Scene, random.Random], None]


def _a_moment(dice: random.Random, most_s: float = 1.5) -> None:
    threading.Event().wait(dice.uniform(0.1, most_s))


def _restart(cluster: Cluster, mode: str) -> None:
    if mode == "smart":
        # It waits for all sessions to end, and ours never do: the operator loses patience.
        with suppress(ConfigError):
            cluster._run("pg_ctl", "stop", "-D", cluster.data, "-m", "smart", "-s", "-w", "-t", "2")
        mode = "fast"
    try:
        cluster.stop(mode)
    except ConfigError:
        # It was down already; or it waits for a client that is silent, and patience is lost again.
        with suppress(ConfigError):
            cluster.stop("immediate")
    cluster.start()


def kill_receiver(scene: Scene, dice: random.Random) -> None:
    dice.choice(scene.receivers).kill()


def kill_export(scene: Scene, _dice: random.Random) -> None:
    scene.export.kill()


def restart_broker(scene: Scene, dice: random.Random) -> None:
    scene.broker.stop()
    _a_moment(dice, 2)
    scene.broker.start()


def jump_clock(scene: Scene, dice: random.Random) -> None:
    """Let a program see another time, for a while or from now on."""
    clock = dice.choice([service.clock for service in scene.services if service.clock])
    clock.jump(dice.choice((-86_400, -3_600, -5, 5, 3_600, 86_400)))
    _a_moment(dice, 3)
    if dice.random() < 0.5:
        clock.jump(0)


def kill_replay(scene: Scene, _dice: random.Random) -> None:
    scene.replay.kill()


def kill_worker(scene: Scene, dice: random.Random) -> None:
    """The JVM, Spark's daemon of Python, or one of its workers."""
    scene.replay.kill_a_child(dice)


def end_sessions_on_target(scene: Scene, dice: random.Random) -> None:
    _end_a_session(scene.target.database, dice)


def end_sessions_on_source(scene: Scene, dice: random.Random) -> None:
    _end_a_session(dice.choice(scene.sources).database, dice)


def _end_a_session(database: Database, dice: random.Random) -> None:
    pids = _our_sessions(database)
    if pids:
        pid = dice.choice(pids)
        patiently(lambda: database.execute(f"select pg_terminate_backend({pid})"))


def _our_sessions(database: Database) -> list[int]:
    found = patiently(
        lambda: database.rows(
            "select pid from pg_stat_activity where datname = current_database()"
            " and application_name like 'pgrepl%' order by pid"
        )
    )
    return [pid for (pid,) in found]


def crash_session(scene: Scene, dice: random.Random) -> None:
    """Kill a process of a server: it ends all sessions and recovers, as after a crash."""
    database = dice.choice((scene.target.database, dice.choice(scene.sources).database))
    pids = _our_sessions(database)
    if pids:
        pid = dice.choice(pids)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # The server shows it until it has noticed, and begun again.
        wait_until(lambda: pid not in _our_sessions(database), timeout_s=PATIENCE_S)


def _restarts(side: Literal["source", "target"]) -> Sequence[Fault]:
    """Return a fault for each way to shut a server down."""

    def made(mode: str) -> Fault:
        def fault(scene: Scene, dice: random.Random) -> None:
            cluster = scene.target.cluster
            _restart(cluster if side == "target" else dice.choice(scene.source_clusters), mode)

        fault.__name__ = f"restart_{side}_{mode}"
        return fault

    return [made(mode) for mode in ("smart", "fast", "immediate")]


_RESTARTS_OF_SOURCE = _restarts("source")
_RESTARTS_OF_TARGET = _restarts("target")


def promote_standby_of_target(scene: Scene, _dice: random.Random) -> None:
    scene.target.promote()


def cut_network(scene: Scene, dice: random.Random) -> None:
    proxy = dice.choice([scene.target.proxy, *(source.proxy for source in scene.sources)])
    dice.choice((proxy.cut, proxy.reset))()


def lose_packets(scene: Scene, dice: random.Random) -> None:
    """A connection that neither carries anything nor ends, for a while."""
    proxy = dice.choice([scene.target.proxy, *(source.proxy for source in scene.sources)])
    proxy.freeze(is_dark=dice.random() < 0.5)
    _a_moment(dice, 4)
    dice.choice((proxy.thaw, proxy.reset))()
    proxy.thaw()


def slow_network(scene: Scene, dice: random.Random) -> None:
    proxy = dice.choice([scene.target.proxy, *(source.proxy for source in scene.sources)])
    proxy.delay_s = dice.uniform(0.001, 0.05)
    _a_moment(dice, 3)
    proxy.delay_s = 0.0


def fill_disk_of_target(scene: Scene, dice: random.Random) -> None:
    with filled(scene.target.place, dice.choice((0, 64 << 10, 1 << 20))):
        _a_moment(dice, 3)


def lock_table_on_target(scene: Scene, dice: random.Random) -> None:
    source = dice.choice(scene.sources)
    table = Identifier(source.schema, dice.choice(("debit", "items", "bulk")))
    _lock(scene.target.database, table, dice, 4)


def lock_table_on_source(scene: Scene, dice: random.Random) -> None:
    _lock(dice.choice(scene.sources).database, Identifier("app", "items"), dice, 2)


def _lock(database: Database, table: Identifier, dice: random.Random, most_s: float) -> None:
    # Its server may be restarted meanwhile, and the table be copied from the start.
    with suppress(psycopg.Error), database.connect() as connection, connection.transaction():
        connection.execute("set local lock_timeout = '5s'")
        connection.execute(SQL("lock {} in access exclusive mode").format(table))
        _a_moment(dice, most_s)


def resync_table(scene: Scene, dice: random.Random) -> None:
    """Services are down or come up meanwhile: it may fail, and then the next one goes on."""
    source = dice.choice(scene.copied_sources)
    way, table = dice.choice(
        (("whole", "items"), ("chunked", "items"), ("whole", "plain"), ("whole", "bulk"))
    )
    scene.run(
        *("resync", source.name, f"app.{table}", "--way", way),
        codes=(0, 2, 10, 20, 30, 40, 50, 75),
    )


def pause_source(scene: Scene, dice: random.Random) -> None:
    source = dice.choice(scene.sources)
    scene.run("pause", source.name, codes=(0, 30))
    _a_moment(dice, 2)
    wait_until(lambda: scene.run("resume", source.name, codes=(0, 30)) == 0, timeout_s=PATIENCE_S)


def corrupt_spool(scene: Scene, dice: random.Random) -> None:
    """Change one byte of what waits; nothing of it is applied, and once it is right all goes on."""
    source = dice.choice(scene.sources)
    with scene.replay.stopped():
        target = scene.target.database
        mine = (
            f"source_id = (select source_id from replication.source where name = '{source.name}')"
        )
        columns = "source_id, seq, bucket, part"
        key = f"({columns})"
        # What an export has still to read is there too, and replay does not look at it again.
        waiting = (
            f"replication.raw_messages where {mine} and seq > (select coalesce(max(applied_seq), 0)"
            f" from replication.shard_progress where {mine})"
        )
        wait_until(lambda: target.value(f"select count(*) from {waiting}"), timeout_s=PATIENCE_S)
        found = f"select {columns} from {waiting} order by seq, bucket limit 1"
        flip = "payload = set_byte(payload, 0, get_byte(payload, 0) # 1)"
        target.execute(
            "create table if not exists public.kept_key as"
            f" select {columns} from replication.raw_messages where {key} in ({found})",
            f"update replication.raw_messages set {flip} where {key} in (table public.kept_key)",
        )
    before = scene.replay.ends[40]
    wait_until(
        lambda: (
            scene.replay.ends[40] > before
            or target.value(
                f"select count(*) from replication.failure where {mine} and stage = 'replay'"
                " and message like '%corrupted%'"
            )
        ),
        timeout_s=PATIENCE_S,
    )
    with scene.replay.stopped():
        target = scene.target.database
        target.execute(
            f"update replication.raw_messages set {flip} where {key} in (table public.kept_key)",
            "drop table public.kept_key",
        )


def drop_slot(scene: Scene, dice: random.Random) -> None:
    _lose_slot(scene, dice, "select pg_drop_replication_slot('{}')")


def advance_slot(scene: Scene, dice: random.Random) -> None:
    _lose_slot(scene, dice, "select pg_replication_slot_advance('{}', pg_current_wal_lsn())")


def _lose_slot(scene: Scene, dice: random.Random, statement: str) -> None:
    """Do something to a slot from outside: refused until the source is copied again."""
    source = dice.choice(scene.copied_sources)
    with scene.copied_again(source):
        slot = f"pgrepl_{source.name}"
        statement = statement.format(slot)
        wait_until(lambda: _is_free(source, slot), timeout_s=PATIENCE_S)
        is_drop = "drop" in statement
        source.database.execute("create table app.passed ()", "drop table app.passed", statement)
        code = scene.run("receive", source.name, "--once", codes=(0, 20, 30, 40, 75))
        # A slot that was moved over nothing of ours is as good as before.
        assert code or not is_drop, "a slot that does not exist was not noticed"
        scene.heal()
        # Those who write may be in its way.
        arguments = ("basebackup", source.name, "--restart")
        wait_until(lambda: scene.run(*arguments, codes=(0, 20, 30, 75)) == 0, timeout_s=PATIENCE_S)


def _is_free(source: Source, slot: str) -> bool:
    return source.database.rows(
        f"select active from pg_replication_slots where slot_name = '{slot}'"
    ) == [(False,)]


#: How often each comes in a deck of cards; the first deck has one of each.
FAULTS: dict[Fault, int] = {
    kill_receiver: 14,
    kill_export: 4,
    restart_broker: 2,
    jump_clock: 5,
    kill_replay: 6,
    kill_worker: 8,
    end_sessions_on_target: 14,
    end_sessions_on_source: 14,
    crash_session: 3,
    **dict.fromkeys(_RESTARTS_OF_SOURCE, 2),
    **dict.fromkeys(_RESTARTS_OF_TARGET, 2),
    promote_standby_of_target: 2,
    cut_network: 14,
    lose_packets: 5,
    slow_network: 5,
    fill_disk_of_target: 4,
    lock_table_on_target: 5,
    lock_table_on_source: 4,
    resync_table: 5,
    pause_source: 3,
    corrupt_spool: 1,
    drop_slot: 1,
    advance_slot: 1,
}

#: What goes on for a while, beside others; of each kind there is one at a time.
LASTING = frozenset(
    {
        restart_broker,
        jump_clock,
        lose_packets,
        slow_network,
        fill_disk_of_target,
        lock_table_on_target,
        lock_table_on_source,
        resync_table,
        pause_source,
    }
)
#: After these a server of the target recovers.
RECOVERING = frozenset({*_RESTARTS_OF_TARGET, crash_session, promote_standby_of_target})
#: What insists on how commands end: nothing else happens meanwhile.
ALONE = frozenset({corrupt_spool, drop_slot, advance_slot})
