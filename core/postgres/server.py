"""Which database a source is, whatever its DSN says today."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import connect
from pgrepl.postgres.sqlstate import translated

__all__ = ["Identity", "identify"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Which database a source is."""

    system_identifier: int
    timeline: int
    dbname: str


def identify(endpoint: Endpoint, stage: str) -> Identity:
    """Ask a source which database it is."""
    with (
        connect(endpoint, stage, is_replication=True) as connection,
        translated(endpoint, "cannot identify the server"),
    ):
        row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    if row is None:
        raise SourceError(f"{endpoint}: IDENTIFY_SYSTEM returned nothing")
    return Identity(int(row[0]), int(row[1]), str(row[3]))
