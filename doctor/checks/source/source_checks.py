"""Judge a source server. Every function is pure: facts in, a finding out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg.sql import SQL, Identifier, Literal

from pgrepl.catalog.slots import PLUGINS, Slot
from pgrepl.catalog.writers import Writer
from pgrepl.config.model import CODE_KINDS, SourceConfig
from pgrepl.doctor.checks.source.plugin_checks import check_plugin_and_writers
from pgrepl.doctor.finding import Finding, Remedy, Status
from pgrepl.doctor.plugin_probe import Probe
from pgrepl.doctor.source_facts import SQL_ASCII, SourceFacts, SourceServer
from pgrepl.durations import print_duration
from pgrepl.terminal import command

__all__ = [
    "MINIMUM_VERSION",
    "check_encryption",
    "check_server",
    "check_version",
    "is_probe_possible",
]

#: The oldest server that the tests run on.
MINIMUM_VERSION = 150000

_RESTART = "restart the server"
_RELOAD = SQL("SELECT pg_reload_conf()")
_MB = 1024 * 1024
#: A slot that may hold less than this is lost in a short outage of the receiver.
_LITTLE_WAL_MB = 1024
#: An outage over a weekend.
_LONG_OUTAGE_S = 3 * 24 * 3600


def check_server(
    source: SourceConfig,
    facts: SourceFacts,
    probe: Probe | None,
    writers: Sequence[Writer],
    include: Collection[str] = (),
) -> list[Finding]:
    """Run every check of the server; ``probe`` is None when it was not possible.

    ``include`` is that of ``[ddl]``.
    """
    server = facts.server
    return [
        check_version(server.version_num),
        check_encryption(is_private=server.is_private),
        check_primary(server),
        check_wal_level(server),
        check_replication_privilege(server),
        check_slots(server, facts.slot),
        check_wal_senders(server, facts.slot),
        *check_plugin_and_writers(source.plugin, facts, probe, writers),
        check_slot(source, server, facts.slot),
        check_wal_keep_size(server),
        check_idle_timeout(server),
        check_encoding(server),
        check_large_objects(server),
        check_trust_code(source, include),
    ]


def is_probe_possible(facts: SourceFacts) -> bool:
    """Whether the server is ready for the plugin to be tried."""
    server = facts.server
    return (
        server.may_replicate
        and not server.is_standby
        and server.wal_level == "logical"
        and server.used_slots < server.max_slots
    )


def check_version(version_num: int) -> Finding:
    """Both sides: a version that pgrepl is tested with."""
    shown = f"{version_num // 10000}.{version_num % 10000}"
    if version_num >= MINIMUM_VERSION:
        return Finding.ok("version", f"PostgreSQL {shown}")
    return Finding(
        "version",
        Status.FAILURE,
        f"PostgreSQL {shown} is too old; pgrepl needs 15 or newer",
        Remedy(then="upgrade the server with pg_upgrade"),
    )


def check_encryption(*, is_private: bool) -> Finding:
    """Rows that travel as they are can be read, and changed, by whoever is in between."""
    if is_private:
        return Finding.ok("encryption", "the connection is encrypted, or leaves no machine")
    return Finding(
        "encryption",
        Status.WARNING,
        "the connection is not encrypted: rows can be read and changed on their way",
        Remedy(then="turn on ssl on the server, and set sslmode=verify-full in the DSN"),
    )


def check_primary(server: SourceServer) -> Finding:
    """A standby shows snapshots that are not exact, and has no slots before version 16."""
    if not server.is_standby:
        return Finding.ok("primary", "is a primary")
    return Finding(
        "primary",
        Status.FAILURE,
        "is a standby, whose snapshots are not exact",
        Remedy(then="name the primary in the DSN, with target_session_attrs=read-write"),
    )


def check_wal_level(server: SourceServer) -> Finding:
    """Logical decoding needs its information in the WAL."""
    if server.wal_level == "logical":
        return Finding.ok("wal-level", 'wal_level is "logical"')
    return Finding(
        "wal-level",
        Status.FAILURE,
        f'wal_level is "{server.wal_level}"; only "logical" can be decoded',
        Remedy.of(SQL("ALTER SYSTEM SET wal_level = logical"), then=_RESTART),
    )


def check_replication_privilege(server: SourceServer) -> Finding:
    """Slots are for roles with REPLICATION."""
    if server.may_replicate:
        return Finding.ok("replication-privilege", f'role "{server.role}" may replicate')
    return Finding(
        "replication-privilege",
        Status.FAILURE,
        f'role "{server.role}" has no REPLICATION',
        Remedy.of(SQL("ALTER ROLE {} REPLICATION").format(Identifier(server.role))),
    )


def check_slots(server: SourceServer, slot: Slot | None) -> Finding:
    """One slot for us, unless we have it already."""
    free = server.max_slots - server.used_slots
    if slot is not None or free > 0:
        return Finding.ok("slots", f"{free} of {server.max_slots} replication slots are free")
    return Finding(
        "slots",
        Status.FAILURE,
        f"all {server.max_slots} replication slots are in use",
        Remedy.of(
            SQL("ALTER SYSTEM SET max_replication_slots = {}").format(
                Literal(server.max_slots + 10)
            ),
            then=_RESTART,
        ),
    )


def check_wal_senders(server: SourceServer, slot: Slot | None) -> Finding:
    """One for the receiver, unless it has one already."""
    free = server.max_wal_senders - server.used_wal_senders
    if free > 0 or (slot is not None and slot.is_active):
        return Finding.ok("wal-senders", f"{free} of {server.max_wal_senders} WAL senders are free")
    return Finding(
        "wal-senders",
        Status.FAILURE,
        f"all {server.max_wal_senders} WAL senders are in use",
        Remedy.of(
            SQL("ALTER SYSTEM SET max_wal_senders = {}").format(
                Literal(server.max_wal_senders + 10)
            ),
            then=_RESTART,
        ),
    )


def check_slot(source: SourceConfig, server: SourceServer, slot: Slot | None) -> Finding:
    """The slot of ours, when it is there: ours, and not lost."""
    name, plugin = source.slot, source.plugin
    if slot is None:
        return Finding.ok("slot", f'slot "{name}" does not exist yet; basebackup makes it')
    drop = SQL("SELECT pg_drop_replication_slot({})").format(Literal(name))
    if slot.plugin in PLUGINS and slot.plugin != plugin and slot.dbname == server.dbname:
        return Finding(
            "slot",
            Status.FAILURE,
            f'slot "{name}" is of plugin {slot.plugin}, the configuration says {plugin}',
            Remedy(then=f"change it: {command('receive', source.name, '--change-plugin')}"),
        )
    if slot.plugin != plugin or slot.dbname != server.dbname:
        what = f"plugin {slot.plugin}, database {slot.dbname}" if slot.plugin else "a physical slot"
        return Finding(
            "slot",
            Status.FAILURE,
            f'slot "{name}" is not owned by pgrepl: {what}',
            Remedy(then="set another slot name in pgrepl.toml"),
        )
    if slot.is_lost:
        return Finding(
            "slot",
            Status.FAILURE,
            f'slot "{name}" is lost: {slot.loss}',
            Remedy.of(drop, then="copy the source again: pgrepl basebackup --restart"),
        )
    if slot.wal_status == "unreserved":
        return Finding(
            "slot",
            Status.FAILURE,
            f'slot "{name}" is about to be lost: it needs more WAL than the server keeps',
            Remedy.of(
                SQL("ALTER SYSTEM SET max_slot_wal_keep_size = -1"),
                _RELOAD,
                then="start the receiver before the next checkpoint",
            ),
        )
    held = "nothing" if slot.held_bytes is None else f"{slot.held_bytes / _MB:.0f} MB of WAL"
    state = "in use" if slot.is_active else "not in use"
    return Finding.ok("slot", f'slot "{name}" is {state} and holds {held}')


def check_wal_keep_size(server: SourceServer) -> Finding:
    """Without a limit a stopped receiver fills the disk; with a small one it loses the slot."""
    kept = server.max_slot_wal_keep_mb
    if kept < 0:
        return Finding(
            "wal-keep-size",
            Status.WARNING,
            "max_slot_wal_keep_size has no limit: if pgrepl stops for long, WAL fills the disk",
            Remedy.of(SQL("ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'"), _RELOAD),
        )
    if kept < _LITTLE_WAL_MB:
        return Finding(
            "wal-keep-size",
            Status.WARNING,
            f"max_slot_wal_keep_size is only {kept} MB: a short outage loses the slot,"
            " and the source must be copied again",
            Remedy.of(SQL("ALTER SYSTEM SET max_slot_wal_keep_size = '100GB'"), _RELOAD),
        )
    return Finding.ok("wal-keep-size", f"a slot may hold {kept} MB of WAL before it is lost")


def check_idle_timeout(server: SourceServer) -> Finding:
    """From PostgreSQL 18 on a slot that nobody reads for long can be invalidated."""
    limit_s = server.idle_slot_timeout_s
    if not limit_s:
        return Finding.ok("idle-slot-timeout", "a slot may wait for its receiver without limit")
    shown = print_duration(limit_s)
    if limit_s >= _LONG_OUTAGE_S:
        return Finding.ok("idle-slot-timeout", f"a slot may wait {shown} for its receiver")
    return Finding(
        "idle-slot-timeout",
        Status.WARNING,
        f"idle_replication_slot_timeout is {shown}: a receiver that does not run for longer, or a"
        " job of cron with a longer interval, loses the slot, and the source must be copied again",
        Remedy.of(SQL("ALTER SYSTEM SET idle_replication_slot_timeout = '7d'"), _RELOAD),
    )


def check_encoding(server: SourceServer) -> Finding:
    """Every encoding but SQL_ASCII says what its bytes mean."""
    if server.encoding != SQL_ASCII:
        return Finding.ok("encoding", f"the database is in {server.encoding}")
    return Finding(
        "encoding",
        Status.FAILURE,
        "the database is in SQL_ASCII: nothing says what its bytes mean, so none can be converted",
        Remedy(then="dump it and restore it into a database with ENCODING 'UTF8'"),
    )


def check_trust_code(source: SourceConfig, include: Collection[str] = ()) -> Finding:
    """Code of a source runs on the target only where its section says so, and then loudly."""
    if not source.trust_code:
        wanted = sorted(CODE_KINDS.intersection(include))
        if wanted:
            return Finding(
                "trust-code",
                Status.WARNING,
                f'"include" of [ddl] names {", ".join(wanted)}, and trust_code is false: they are'
                " code, and none of them comes",
                Remedy(
                    then=f"set trust_code = true in [sources.{source.name}] as well, if its owners"
                    " may run SQL on the target, or take them out of include"
                ),
            )
        return Finding.ok("trust-code", "none of its code runs on the target")
    return Finding(
        "trust-code",
        Status.WARNING,
        "trust_code is true: whoever may change this source's schema can run any SQL on the target,"
        " with the rights of pgrepl's role, and so read and change what came from other sources",
        Remedy(
            then=f"set trust_code = false in [sources.{source.name}] and copy it again:"
            f" {command('basebackup', source.name, '--restart')}"
        ),
    )


def check_large_objects(server: SourceServer) -> Finding:
    """Logical decoding carries no large objects."""
    if not server.has_large_objects:
        return Finding.ok("large-objects", "there are none")
    return Finding(
        "large-objects",
        Status.WARNING,
        "the database holds large objects, which logical decoding does not carry",
        Remedy(then="keep such data in bytea columns"),
    )
