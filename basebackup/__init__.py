"""Copy a source into the target, exactly as it is at one position of its WAL."""

from pgrepl.basebackup.needs import LeftOut
from pgrepl.basebackup.plan import CopyPlan, plan_copy
from pgrepl.basebackup.report import CopyOptions, CopyReport, Stage, Watcher
from pgrepl.basebackup.resync import ResyncOptions, ResyncReport, resync_tables
from pgrepl.basebackup.run import copy_source
from pgrepl.basebackup.state import TableProgress

__all__ = [
    "CopyOptions",
    "CopyPlan",
    "CopyReport",
    "LeftOut",
    "ResyncOptions",
    "ResyncReport",
    "Stage",
    "TableProgress",
    "Watcher",
    "copy_source",
    "plan_copy",
    "resync_tables",
]
