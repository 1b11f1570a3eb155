"""What runs beside replay: indexes, sequences, history, statistics, and resyncs after DDL."""

from pgrepl.housekeeping.indexes import INDEX_PREFIX
from pgrepl.housekeeping.resync import Copier, Resyncer
from pgrepl.housekeeping.run import Housekeeper

__all__ = ["INDEX_PREFIX", "Copier", "Housekeeper", "Resyncer"]
