"""Which source LSN the target showed at which time."""

from pgrepl.progress.read import Bindings, read_bindings

__all__ = ["Bindings", "read_bindings"]
