"""Which source LSN the target showed at which time."""

from pgrepl.progress.read import Binding, Bindings, read_bindings

__all__ = ["Binding", "Bindings", "read_bindings"]
