"""What runs beside replay: indexes, sequences, history and statistics."""

from pgrepl.housekeeping.indexes import INDEX_PREFIX
from pgrepl.housekeeping.run import Housekeeper

__all__ = ["INDEX_PREFIX", "Housekeeper"]
