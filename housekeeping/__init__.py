"""What the replayer does when it has caught up: indexes, sequences, history, statistics."""

from pgrepl.housekeeping.indexes import INDEX_PREFIX
from pgrepl.housekeeping.run import Housekeeper

__all__ = ["INDEX_PREFIX", "Housekeeper"]
