"""Watches over all sources: looks again and again, and tells who asks. Changes nothing there.

What serves it by HTTP is in ``pgrepl.monitor.web``, which needs ``pgrepl[monitor]``; nothing here
does.
"""

from pgrepl.monitor.snapshot import Snapshot
from pgrepl.monitor.watcher import Watcher

__all__ = ["Snapshot", "Watcher"]
