"""What runs from the beginning of a ``with`` block to its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["SelfClosing"]


class SelfClosing(ABC):
    """Runs when it is made, and is closed at the end of the block."""

    def __enter__(self) -> Self:
        """Return what runs."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop and remove it."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Stop and remove it."""
