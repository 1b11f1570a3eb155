"""DDL on tables that are copied in chunks for the first time: their copies start over with it.

What they will be like is read from the source then, so that there is nothing to apply.
"""

from __future__ import annotations

from pgrepl.ddl_capture.apply.command import Application
from pgrepl.store.resync.joins import abandon_join, forget_join

__all__ = ["start_over"]


def start_over(application: Application) -> bool:
    """Have the new tables start over that a command is about; say whether that is all there is.

    The structure that they were made with may have been read after it.
    """
    target = application.target
    joining = target.joining()
    if not joining or application.event.kind != "end":
        return False
    concern = application.concern()
    found = (concern.tables | concern.dropped) & joining
    if not found:
        return False
    is_all = concern.tables <= found and not concern.dropped
    if is_all and target.is_in_copy(found):
        application.skip("the copy of the table was made after it")
        return True
    abandon_join(target.connection, target.source_id, found - concern.dropped)
    forget_join(target.connection, target.source_id, found & concern.dropped)
    if is_all:
        application.skip("the first copy of the table starts over with it")
    return is_all
