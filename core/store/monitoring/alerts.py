"""Which alerts were delivered, and which not yet: ``replication.alert``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from psycopg.rows import class_row

from pgrepl.postgres.connect import Connection

__all__ = ["ALERT_STEP", "AlertRow", "forget_alert", "keep_alert", "read_alerts"]

#: The migration that made the table.
ALERT_STEP = "alert"


@dataclass(frozen=True, slots=True)
class AlertRow:
    """A row of ``replication.alert``."""

    source: str
    kind: str
    subject: str
    since: datetime
    message: str
    told_at: datetime | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells alerts apart."""
        return self.source, self.kind, self.subject


def read_alerts(connection: Connection) -> Sequence[AlertRow]:
    """Return all alerts that are not over, in the order they began."""
    with connection.cursor(row_factory=class_row(AlertRow)) as cursor:
        return cursor.execute(
            "select source, kind, subject, since, message, told_at from replication.alert"
            " order by since, source, kind, subject"
        ).fetchall()


def keep_alert(connection: Connection, row: AlertRow) -> None:
    """Write an alert down, or how it is now."""
    connection.execute(
        "insert into replication.alert (source, kind, subject, since, message, told_at) values"
        " (%(source)s, %(kind)s, %(subject)s, %(since)s, %(message)s, %(told_at)s)"
        " on conflict (source, kind, subject) do update"
        " set message = excluded.message, told_at = excluded.told_at",
        asdict(row),
    )


def forget_alert(connection: Connection, row: AlertRow) -> None:
    """Remove an alert that is over, and told to be."""
    connection.execute(
        "delete from replication.alert where (source, kind, subject) = (%s, %s, %s)", row.key
    )
