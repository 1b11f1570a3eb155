"""The tables of one run whose copies get the source's structure, root by root."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from pgrepl.catalog.tables import SourceTable
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.locking import lock_patiently
from pgrepl.resync.sides import Sides, Whole
from pgrepl.resync.tables import Choosing
from pgrepl.resync.whole.restructure import Remake
from pgrepl.store.tables.places import read_places

__all__ = ["Remakes", "families"]

logger = logging.getLogger(__name__)


class Remakes:
    """Knows the new structure of each of them."""

    def __init__(self, sides: Sides, choosing: Choosing) -> None:
        """Know none yet."""
        self._sides = sides
        self._choosing = choosing
        self._remakes: dict[tuple[str, str], Remake] = {}
        self._structures: dict[tuple[str, str], str] = {}

    def find(self, table: SourceTable) -> Remake | None:
        """Return what gives a table its structure; None: it has it."""
        return self._remakes.get(table.key)

    def read(
        self, reader: Connection, first: Sequence[SourceTable], remade: Sequence[SourceTable]
    ) -> None:
        """Read the structure of tables that are created, or created again, as a session sees it."""
        remake = Remake(self._sides, reader, [*first, *remade])
        self._remakes |= dict.fromkeys((table.key for table in remade), remake)
        self._structures |= {t.key: remake.fingerprint(t) for t in (*first, *remade)}

    def structure(self, table: SourceTable) -> str | None:
        """Return a fingerprint of the structure that a table gets; None: it has it."""
        return self._structures.get(table.key)

    def take_up(self, wholes: Sequence[Whole], copied: Collection[Whole]) -> Sequence[Whole]:
        """Return those tables that an earlier run copied and whose structure is that of today.

        Partitions of one root are copied together, or not at all.
        """
        remade = [whole for whole in wholes if self._choosing.is_remade(whole.table)]
        useful = [w for w in copied if w not in remade and w.resync.structure is None]
        for family in families(remade):
            tables = [whole.table for whole in family]
            remake = Remake(self._sides, self._sides.source_session, tables)
            if all(
                whole in copied and whole.resync.structure == remake.fingerprint(whole.table)
                for whole in family
            ):
                self._remakes |= dict.fromkeys((table.key for table in tables), remake)
                useful += family
        return useful

    def swap(
        self, wholes: Iterable[Whole], note: Callable[[Whole], None], late: Sequence[str]
    ) -> None:
        """Give tables structure and rows: in one transaction those of a root, with what is noted.

        ``late`` are statements about new columns of any of them.
        """
        for family in families(w for w in wholes if w.table.key in self._remakes):
            self._swap(family, note, late)

    def _swap(
        self, family: Sequence[Whole], note: Callable[[Whole], None], late: Sequence[str]
    ) -> None:
        sides, first = self._sides, family[0].table
        remake = self._remakes[first.key]
        tables = {w.resync.resync_id: remake.as_on_target(w.table) for w in family}
        told: list[str] = []

        def swap() -> None:
            told[:] = remake.swap(tables, late)
            for whole in family:
                note(whole)
            reach("resync.before_swap_commit")

        key = first.root_schema, first.root_name
        root = read_places(sides.target, sides.source_id).find(key) or remake.place(key)
        with translated(sides.endpoint, f"cannot put the rows of {first} in place"):
            lock_patiently(
                sides.target, sides.endpoint, [root], swap, sides.options, with_readers=True
            )
        for line in told:
            logger.warning("%s", line)
        reach("resync.swapped")


def families(wholes: Iterable[Whole]) -> Sequence[Sequence[Whole]]:
    """Return tables by the root whose partitions they are."""
    roots: dict[tuple[str, str], list[Whole]] = {}
    for whole in wholes:
        roots.setdefault((whole.table.root_schema, whole.table.root_name), []).append(whole)
    return list(roots.values())
