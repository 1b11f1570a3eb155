"""What last went wrong with a source, kept on the target for ``pgrepl status``."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

import psycopg

from pgrepl.errors import PgreplError
from pgrepl.postgres.connect import Connection

__all__ = ["Stage", "clear", "record"]

Stage = Literal["drop", "receive", "replay"]


def record(connection: Connection, stage: Stage, source_id: int, error: PgreplError) -> None:
    """Keep an error; that it cannot be kept is no error of its own."""
    with suppress(psycopg.Error):
        connection.execute(
            "insert into replication.failure (source_id, stage, message, hint)"
            " values (%s, %s, %s, %s) on conflict (source_id, stage) do update"
            " set message = excluded.message, hint = excluded.hint, at = excluded.at",
            (source_id, stage, error.message, error.hint),
        )


def clear(connection: Connection, stage: Stage, source_id: int) -> None:
    """Forget it: the stage goes on."""
    connection.execute(
        "delete from replication.failure where source_id = %s and stage = %s", (source_id, stage)
    )
