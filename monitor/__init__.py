"""Watches over all sources: looks again and again, and tells who asks. Changes nothing there.

What serves it by HTTP is in ``pgrepl.monitor.web``, which needs ``pgrepl[monitor]``; nothing here
does.
"""

from pgrepl.monitor.recorder import Recorder
from pgrepl.monitor.snapshot import Snapshot
from pgrepl.monitor.watcher import INTERVAL_S, Watcher
from pgrepl.store.monitoring.history import LOOK_S

__all__ = ["INTERVAL_S", "LOOK_S", "Recorder", "Snapshot", "Watcher"]
