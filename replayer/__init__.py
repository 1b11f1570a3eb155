"""Apply the spool to the target tables, sharded, through Spark.

``run`` drives: it asks ``plan`` for the next batch of each source and gives it to Spark (``job``),
one task per shard. A task (``shard``) reads its parts (``chunk``, ``sort``), folds them to the net
change per row (``changes``, ``layout``, ``fold``, on the bytes of ``lines``), and writes that
(``stage``, ``merge``) with its progress in one transaction. Under batch consistency the driver
merges what all shards have staged (``whole``). Transactions with DDL or TRUNCATE are applied by the
driver alone (``serial``, ``stream``). What cannot be applied is kept (``park``).
"""

from pgrepl.replayer.run import Replayer, SourceResult
from pgrepl.replayer.settings import ReplaySettings

__all__ = ["ReplaySettings", "Replayer", "SourceResult"]
