"""Apply the spool to the target tables, sharded, through Spark."""

__all__: list[str] = []
