"""Plots out of characters, for a terminal or a mail."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["plot", "resample", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
#: A braille character is a cell of two by four dots; bits by column and from the bottom row up.
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
_BLANK = 0x2800
_ROWS, _COLUMNS = 4, 2


def sparkline(values: Sequence[float | None], top: float | None = None) -> str:
    """Draw values as bars, the highest one as high as can be; a hole where nothing is known."""
    most = max((value for value in values if value is not None), default=0.0)
    top = most if top is None else top
    last = len(_BARS) - 1
    return "".join(
        " " if value is None else _BARS[round(value / top * last) if top > 0 else 0]
        for value in values
    )


def plot(values: Sequence[float | None], height: int) -> list[str]:
    """Draw values as a filled line of braille, two values a character, the first line on top.

    What is not zero has at least a dot.
    """
    top = max((value for value in values if value is not None), default=0.0)
    full = height * _ROWS
    levels = [0 if not value or top <= 0 else max(round(value / top * full), 1) for value in values]
    lines = []
    for row in reversed(range(height)):
        cells = []
        for begin in range(0, len(levels), _COLUMNS):
            bits = 0
            for column, level in enumerate(levels[begin : begin + _COLUMNS]):
                dots = min(max(level - row * _ROWS, 0), _ROWS)
                bits |= sum(_DOTS[column][:dots])
            cells.append(chr(_BLANK + bits))
        lines.append("".join(cells))
    return lines


def resample(values: Sequence[tuple[float, float | None]], count: int) -> list[float | None]:
    """Return the highest value of each of ``count`` pieces of equal length; times are from 0 to 1.

    A piece without a value is a hole.
    """
    found: list[float | None] = [None] * count
    for at, value in values:
        place = min(int(at * count), count - 1)
        if value is not None and at >= 0:
            before = found[place]
            found[place] = value if before is None else max(before, value)
    return found
