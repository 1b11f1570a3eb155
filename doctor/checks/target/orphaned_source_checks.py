"""Judge sources and origins on the target that the configuration does not have.

Nobody receives such a source, or replays it. Pure functions: facts in, findings out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg.sql import SQL, Literal

from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.terminal import command

__all__ = ["check_orphaned_sources"]

_PREFIX = "pgrepl_"


def check_orphaned_sources(
    known: Mapping[str, str], origins: Sequence[str], configured: Mapping[str, str]
) -> list[Finding]:
    """Every source on the target, and every origin there, belongs to the configuration.

    ``known`` and ``configured`` lead from sources to their slots, which origins are named after.
    """
    return [_sources(known, configured), _origins(known, origins, configured)]


def _sources(known: Mapping[str, str], configured: Mapping[str, str]) -> Finding:
    orphans = sorted(known.keys() - configured.keys())
    if not orphans:
        return Finding.ok("orphaned-sources", "the configuration has every source of the target")
    return Finding(
        "orphaned-sources",
        Status.WARNING,
        f"sources that the configuration does not have, so nobody receives them: {listed(orphans)}",
        Remedy(
            shell=tuple(command("drop", name, "--dsn", "DSN") for name in orphans),
            then="or put their sections back into pgrepl.toml",
        ),
        tuple(orphans),
    )


def _origins(
    known: Mapping[str, str], origins: Sequence[str], configured: Mapping[str, str]
) -> Finding:
    used = {*known.values(), *configured.values()}
    orphans = sorted(name for name in origins if name.startswith(_PREFIX) and name not in used)
    if not orphans:
        return Finding.ok("orphaned-origins", "there are none")
    statements = [
        SQL("SELECT pg_replication_origin_drop({})").format(Literal(name)) for name in orphans
    ]
    return Finding(
        "orphaned-origins",
        Status.WARNING,
        f"replication origins that no source has: {listed(orphans)}",
        # Origins belong to the whole server.
        Remedy.of(*statements, then="unless another database of the server has them"),
        tuple(orphans),
    )
