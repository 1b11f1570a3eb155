"""The slot, without which a copy would get no more changes."""

from __future__ import annotations

from pgrepl.catalog.slots import read_slot
from pgrepl.errors import SourceError
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.sides import Sides
from pgrepl.terminal import command

__all__ = ["check_slot"]


def check_slot(sides: Sides) -> None:
    """Make sure that the stream which a copy is placed in goes on.

    Raises
    ------
    SourceError
        when the slot does not exist any more, or the source has removed what it needs.

    """
    name = sides.row.name
    with translated(sides.source.endpoint, "cannot look for the slot"):
        found = read_slot(sides.source_session, sides.row.slot)
    if found is not None and not found.is_lost:
        return
    restart = command("basebackup", name, "--restart")
    raise SourceError(
        f'slot "{sides.row.slot}" of source "{name}"'
        + (" does not exist any more" if found is None else " is lost")
        + ": no table of it gets changes, whatever is copied",
        hint=f"If its plugin is being changed, run the same command later. Else: {restart}.",
    )
