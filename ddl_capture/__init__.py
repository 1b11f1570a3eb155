"""Capture DDL on a source and apply it to the target, so that schema changes follow by themselves.

``pgrepl.ddl_capture.source`` has the event triggers, ``Applier`` is what the replayer calls.
"""

from pgrepl.ddl_capture.apply.applier import Applier
from pgrepl.ddl_capture.journal import decide, find_waiting
from pgrepl.ddl_capture.missed import MissedDdl, find_missed
from pgrepl.ddl_capture.scripts import install_script, switch_script, uninstall_script
from pgrepl.ddl_capture.source import CaptureStatus, install, read_status, switch, uninstall

__all__ = [
    "Applier",
    "CaptureStatus",
    "MissedDdl",
    "decide",
    "find_missed",
    "find_waiting",
    "install",
    "install_script",
    "read_status",
    "switch",
    "switch_script",
    "uninstall",
    "uninstall_script",
]
