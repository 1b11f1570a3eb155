"""Copy a table again in chunks: key ranges, each placed in the stream under its own snapshot."""

from pgrepl.resync.chunked.run import ChunkedResync, find_obstacle, run_chunked

__all__ = ["ChunkedResync", "find_obstacle", "run_chunked"]
