"""Copy tables again while streaming goes on: when asked to, and by itself after DDL."""

from pgrepl.resync.automatic import Resyncer
from pgrepl.resync.release import TableCopies, apply_waiting
from pgrepl.resync.report import ResyncOptions, ResyncReport
from pgrepl.resync.run import resync_tables

__all__ = [
    "ResyncOptions",
    "ResyncReport",
    "Resyncer",
    "TableCopies",
    "apply_waiting",
    "resync_tables",
]
