"""DDL on tables that their first copy makes: it brings them in, or their copies start over with it.

What they will be like is read from the source then, so that there is nothing to apply.
"""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.ddl_capture.apply.command import Application
from pgrepl.ddl_capture.apply.scope import CREATING
from pgrepl.ddl_capture.definition import TableName
from pgrepl.store.resync.joins import abandon_join, forget_join
from pgrepl.store.tables.table_names import rename_table

__all__ = ["start_over"]


def start_over(application: Application) -> bool:
    """Have the new tables start over that a command is about; say whether that is all there is.

    The structure that they were made with may have been read after it. What else there is of the
    command leaves them alone: nobody is to see them before they are whole.
    """
    target = application.target
    if application.event.kind != "end":
        return False
    if target.standing.is_any_joining:
        # One whose copy was broken off is made by another.
        target.release_interrupted()
    joining = target.joining()
    brought = _bring_in(application, joining)
    joining = {**joining, **brought}
    if not joining:
        return False
    concern = application.concern()
    was_called = {oid: name for name, oid in joining.items() if oid is not None}
    names: dict[TableName, TableName] = {
        was_called[table.oid]: table.key
        for table in application.selected()
        if table.oid in was_called
    }
    # One whose new name the patterns do not take in is not replicated any more.
    lost = {was_called[t.oid] for t in application.tables if t.oid in was_called} - names.keys()
    found = ((concern.tables | concern.dropped) & joining.keys()) | names.keys() | lost
    if not found:
        return False
    later = {name for name in found if target.is_in_copy([name])}
    ended = (found & (concern.dropped | lost)) - later
    kept = found - later - ended
    abandon_join(target.connection, target.source_id, kept)
    for was in kept & names.keys():
        if was != names[was]:
            lsn = target.captured.commit_lsn
            rename_table(target.connection, target.source_id, was, names[was], lsn)
    forget_join(target.connection, target.source_id, ended)
    own = found | set(names.values())
    application.leave_alone(own)
    if not concern.tables <= own or concern.dropped:
        return False
    if later == found:
        application.skip("the copy of the table was made after it")
    else:
        makes = "makes it" if found <= brought.keys() else "starts over with it"
        application.skip(f"the first copy of the table {makes}")
    return True


def _bring_in(
    application: Application, joining: Mapping[TableName, int | None]
) -> Mapping[TableName, int | None]:
    """Have tables made by their first copy that the command brings into replication.

    One that it creates has no rows yet, and is made by its text. One that is parked waits: what
    would make it may be what it waits for.
    """
    if application.event.tag in CREATING:
        return {}
    known = {oid for oid in joining.values() if oid is not None}
    names = application.names_before()
    parked = application.target.parkings().keys()
    tables = [
        table
        for table in application.selected()
        if table.key not in joining and table.oid not in known and table.key not in parked
    ]
    if not tables or parked & set(names):
        return {}
    return application.target.await_copies(tables, names)
