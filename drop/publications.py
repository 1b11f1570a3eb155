"""The publications of a slot that was read through pgoutput, and the triggers that kept them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composed

from pgrepl.catalog.names import role_is_superuser
from pgrepl.config.dsn import Endpoint, Side
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.drop.report import DropReport
from pgrepl.errors import SourceError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.plan import drop_statements
from pgrepl.terminal import command

__all__ = ["PublicationSide", "drop_publications", "look_at_publications"]


@dataclass(frozen=True, slots=True)
class PublicationSide:
    """What stands on a source."""

    names: tuple[str, ...]
    #: What keeps them, if nothing else needs it.
    event_triggers: tuple[str, ...]
    #: Whether the role may drop all of it.
    may_drop: bool

    def removal(self, slot: str) -> Sequence[Composed | SQL]:
        """Return the statements for one who may."""
        is_any = self.names or self.event_triggers
        return drop_statements(slot, is_superuser=True) if is_any else []


def look_at_publications(connection: Connection, slot: str) -> PublicationSide:
    """Read what is there, by the catalogue alone."""
    names = connection.execute(
        "select pubname::text, pg_has_role(pubowner, 'USAGE') from pg_publication"
        " where pubname = any (%s) order by 1",
        (list(publication_names(slot)),),
    ).fetchall()
    # Publications of another slot need them too.
    triggers = connection.execute(
        "select evtname::text from pg_event_trigger where evtname ^@ 'pgrepl_publications_'"
        " and not exists (select from pg_publication p join pg_description d on d.objoid = p.oid"
        " and d.classoid = 'pg_publication'::regclass"
        " where d.description like '{\"pgrepl\":%%' and p.pubname <> %s) order by 1",
        (slot,),
    ).fetchall()
    may_drop = role_is_superuser(connection) or (
        not triggers and all(is_owned for _, is_owned in names)
    )
    return PublicationSide(
        tuple(name for name, _ in names), tuple(name for (name,) in triggers), may_drop
    )


def drop_publications(
    connection: Connection, endpoint: Endpoint, slot: str, report: DropReport
) -> None:
    """Drop them; what the role may not drop does no harm without the slot, and is named."""
    with translated(endpoint, "cannot drop the publications"):
        side = look_at_publications(connection, slot)
        if side.may_drop:
            with connection.transaction():
                for statement in drop_statements(slot, is_superuser=bool(side.event_triggers)):
                    connection.execute(statement)
            reach("drop.publications_dropped")
            report.removed(Side.SOURCE, "publication", *side.names)
            report.removed(Side.SOURCE, "event trigger", *side.event_triggers)
            return
    reason = "only a superuser can remove it"
    report.kept(Side.SOURCE, "publication", reason, *side.names)
    report.kept(Side.SOURCE, "event trigger", reason, *side.event_triggers)
    report.errors.append(
        SourceError(
            f"{endpoint}: this role may not drop the publications of the slot",
            hint=f"Let a superuser run what this prints: {command('drop', endpoint.name, '--sql')}",
        )
    )
