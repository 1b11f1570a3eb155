"""Judge the capture of DDL on a source, as far as its role can see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from psycopg.rows import class_row

from pgrepl.doctor.finding import Finding, Remedy, Status
from pgrepl.postgres.connect import Connection
from pgrepl.terminal import command

__all__ = ["CaptureFacts", "check_capture", "read_capture"]

#: Number of triggers when it is complete.
_TRIGGERS = 8
_FACTS: LiteralString = """
select count(*)                                     as trigger_count,
       count(*) filter (where evtenabled = 'A')     as enabled_count,
       exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                where n.nspname = 'pgrepl' and p.proname = 'prune') as is_current,
       -- those of pgrepl, read through pgoutput, have no subscriber
       array(select pubname::text from pg_publication p where puballtables
                and not exists (select from pg_publication w
                                  join pg_description d on d.objoid = w.oid
                                   and d.classoid = 'pg_publication'::regclass
                                 where w.pubname || '_inserts' = p.pubname
                                   and d.description like '{"pgrepl":%') order by 1)
                                                    as publications
  from pg_event_trigger where evtname ~ '^pgrepl_.*_[01]$'
"""


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What the catalogue says of the capture."""

    trigger_count: int
    enabled_count: int
    #: Whether it is of this version, which leaves no trace in the sessions of users.
    is_current: bool
    #: Publications of all tables: its log is one.
    publications: list[str]

    @property
    def is_complete(self) -> bool:
        """Whether every command is captured now."""
        return self.enabled_count == _TRIGGERS


def read_capture(connection: Connection) -> CaptureFacts:
    """Read what every role may see."""
    with connection.cursor(row_factory=class_row(CaptureFacts)) as cursor:
        (facts,) = cursor.execute(_FACTS).fetchall()
    return facts


def check_capture(source: str, facts: CaptureFacts) -> Finding:
    """The event triggers: none, or all of them, enabled."""
    if facts.trigger_count == 0:
        return Finding.ok("ddl-capture", "DDL is not captured; pgrepl ddl install would")
    renew = Remedy(then=f"renew it: {command('ddl', 'install', source)}")
    if facts.trigger_count < _TRIGGERS or facts.enabled_count not in (0, _TRIGGERS):
        return Finding("ddl-capture", Status.FAILURE, "the capture of DDL is incomplete", renew)
    if facts.enabled_count == 0:
        return Finding(
            "ddl-capture",
            Status.WARNING,
            "the capture of DDL is switched off: what changes now does not reach the target",
            Remedy(
                then=f"{command('ddl', 'enable', source)}, then {command('ddl', 'status', source)}"
            ),
        )
    if not facts.is_current:
        return Finding(
            "ddl-capture",
            Status.WARNING,
            "an older version installed the capture of DDL; it shows in lastval() and can have"
            " serializable transactions cancelled",
            renew,
        )
    if facts.publications:
        return Finding(
            "ddl-capture",
            Status.WARNING,
            "publications of all tables send pgrepl.ddl_log too, and a subscriber without that"
            f" table stops: {', '.join(facts.publications)}",
            Remedy(then="make an empty table pgrepl.ddl_log of the same columns on subscribers"),
        )
    return Finding.ok("ddl-capture", "DDL is captured")
