"""Copy a table again in chunks: key ranges, each placed in the stream under its own snapshot."""

from pgrepl.resync.chunked.chunk import ObstacleError
from pgrepl.resync.chunked.ending import cancel_chunks
from pgrepl.resync.chunked.obstacle import find_obstacle
from pgrepl.resync.chunked.run import ChunkedResync, run_chunked

__all__ = ["ChunkedResync", "ObstacleError", "cancel_chunks", "find_obstacle", "run_chunked"]
