"""Apply the spool to the target tables, sharded, through Spark.

``run`` drives: it asks each source's queue (``source_queue``, ``batches``) for the next batch and
gives it to Spark (``spark_job``), one task per shard. A task (``shard.task``) reads its rows of the
spool (``spool_reader``, ``shard.chunks``), folds them to the net change per row (``shard.fold``, on
what ``pgrepl.decoding`` reads), and writes that (``shard.staging``, ``shard.merge``) with its
progress in one transaction. Under batch consistency the driver merges what all shards have staged
(``batch_commit``). Transactions with DDL or TRUNCATE are applied by the driver alone (``serial``).
What cannot be applied is kept (``parked.parking``) until a person decides
(``parked.parked_tables``).
"""

from pgrepl.replayer.result import SourceResult
from pgrepl.replayer.run import Replayer
from pgrepl.replayer.settings import ReplaySettings

__all__ = ["ReplaySettings", "Replayer", "SourceResult"]
