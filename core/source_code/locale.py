"""Whether an expression has the same value on a server of another locale."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["Dependence", "read_dependence", "read_locale", "reason_of_locale"]


@dataclass(frozen=True, slots=True)
class Dependence:
    """What the value of an expression depends on besides its arguments."""

    #: Whether strings are compared or changed by the rules of a locale.
    is_collated: bool
    #: Whether it has to do with strings at all, whose bytes the encoding decides.
    is_textual: bool


def read_locale(connection: Connection) -> str:
    """Return what strings of a database are compared, changed to upper case and encoded by."""
    ((locale,),) = connection.execute(load_query("pgrepl.source_code", "locale")).fetchall()
    return str(locale)


def read_dependence(connection: Connection, tree: str) -> Dependence:
    """Look at an expression as PostgreSQL keeps it, a ``pg_node_tree``."""
    (row,) = connection.execute(
        load_query("pgrepl.source_code", "dependence"), {"tree": tree}
    ).fetchall()
    return Dependence(*row)


def reason_of_locale(dependence: Dependence, source: str | None, target: str) -> str | None:
    """Return why a value may differ between databases of these locales; None: it does not."""
    if source == target:
        return None
    is_recoded = _encoding(source) != _encoding(target)
    if dependence.is_collated or (dependence.is_textual and is_recoded):
        return "rules of the source's locale, which is not the target's"
    return None


def _encoding(locale: str | None) -> str:
    return (locale or "").partition("/")[0]
