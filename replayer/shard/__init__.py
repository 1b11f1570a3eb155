"""A shard's part of a batch: read from the spool, folded and applied by one Spark task."""
