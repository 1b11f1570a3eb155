"""DDL on tables that are copied in chunks for the first time: their copies start over with it.

What they will be like is read from the source then, so that there is nothing to apply.
"""

from __future__ import annotations

from pgrepl.ddl_capture.apply.command import Application
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
    joining = target.joining()
    if not joining or application.event.kind != "end":
        return False
    concern = application.concern()
    was_called = {oid: name for name, oid in joining.items()}
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
    application.skip(
        "the copy of the table was made after it"
        if later == found
        else "the first copy of the table starts over with it"
    )
    return True
