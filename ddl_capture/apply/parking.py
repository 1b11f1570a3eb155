"""DDL on tables whose changes wait: parked by a failure, or while they are copied again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgrepl.config.naming import shown_name
from pgrepl.ddl_capture.definition import TableName
from pgrepl.ddl_capture.policy.rules import RefusedError

__all__ = ["ParkedError", "check_parked"]


class ParkedError(RefusedError):
    """DDL on a table that is parked, which waits with the table's changes."""

    def __init__(self, tables: frozenset[TableName], *, is_copied: bool = False) -> None:
        """Take the parked tables that it changes; ``is_copied``: they wait for a copy or a lock."""
        names = ", ".join(shown_name(*name) for name in sorted(tables))
        super().__init__(
            f"it changes a table that waits for its copy or for a lock, and waits with it: {names}"
            if is_copied
            else f"it changes a parked table, whose changes wait in their order: {names}"
        )
        self.tables = tables
        self.is_copied = is_copied


def check_parked(parked: Mapping[TableName, bool], changed: Collection[TableName]) -> None:
    """Refuse DDL on tables whose changes wait, for good or until they are copied.

    Raises
    ------
    ParkedError
        when some of them do.

    """
    waiting = parked.keys() & changed
    if waiting:
        # What waits for a person lasts longer than a copy.
        is_copied = all(parked[name] for name in waiting)
        raise ParkedError(frozenset(waiting), is_copied=is_copied)
