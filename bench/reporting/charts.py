"""Charts as SVG, which is text: bars, and lines over logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

__all__ = ["HEIGHT", "WIDTH", "bars", "lines"]

WIDTH, HEIGHT = 720, 320
_LEFT, _BOTTOM, _TOP, _RIGHT = 60, 50, 40, 20
_COLOURS = ("#888888", "#4c78a8", "#f58518", "#54a24b")

Point = tuple[float, float]


def bars(title: str, groups: Mapping[str, Mapping[str, float]], line: float) -> str:
    """Draw groups of bars, and a line across at a height."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    top = 1.1 * max([line, *(value for group in groups.values() for value in group.values())])
    room = (WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = 0.8 * room / max(1, len(names))

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - value / top * (HEIGHT - _BOTTOM - _TOP)

    parts = [_text(WIDTH / 2, 20, title, size=15)]
    for number, (label, group) in enumerate(groups.items()):
        left = _LEFT + number * room + 0.1 * room
        parts.append(_text(left + 0.4 * room, HEIGHT - _BOTTOM + 18, label))
        for place, name in enumerate(names):
            if name in group:
                x, height = left + place * width, y(0) - y(group[name])
                parts.append(
                    f'<rect x="{x:.1f}" y="{y(group[name]):.1f}" width="{0.9 * width:.1f}"'
                    f' height="{height:.1f}" fill="{_COLOURS[place % len(_COLOURS)]}"/>'
                )
                parts.append(_text(x + width / 2, y(group[name]) - 4, f"{group[name]:.2f}"))
    parts.append(_stroke([(_LEFT, y(line)), (WIDTH - _RIGHT, y(line))], "#000000"))
    return _svg([*parts, *_legend(names)])


def lines(title: str, x_title: str, series: Mapping[str, Sequence[Point]]) -> str:
    """Draw lines over logarithmic axes."""
    points = [point for line in series.values() for point in line]
    (x_low, x_high), (y_low, y_high) = (_decades([p[axis] for p in points]) for axis in (0, 1))

    def place(point: Point) -> Point:
        x, y = (math.log10(max(value, 1e-3)) for value in point)
        return (
            _LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - (y - y_low) / (y_high - y_low) * (HEIGHT - _BOTTOM - _TOP),
        )

    parts = [_text(WIDTH / 2, 20, title, size=15), _text(WIDTH / 2, HEIGHT - 12, x_title)]
    for decade in range(x_low, x_high + 1):
        x, y = place((10.0**decade, 10.0**y_low))
        parts.append(_text(x, y + 18, f"{10.0**decade:,g}"))
    for decade in range(y_low, y_high + 1):
        x, y = place((10.0**x_low, 10.0**decade))
        parts.append(_text(x - 28, y + 4, f"{10.0**decade:g} s"))
        parts.append(_stroke([(x, y), (WIDTH - _RIGHT, y)], "#dddddd"))
    for number, line in enumerate(series.values()):
        colour = _COLOURS[number % len(_COLOURS)]
        placed = [place(point) for point in line]
        parts.append(_stroke(placed, colour))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
    return _svg([*parts, *_legend(list(series))])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(max(min(values), 1e-3)))
    return low, max(low + 1, math.ceil(math.log10(max(*values, 1e-3))))


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    for number, name in enumerate(names):
        x = _LEFT + 10 + number * 160
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 15, 37, name, anchor="start"))
    return parts


def _stroke(points: Sequence[Point], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _text(x: float, y: float, text: str, *, size: int = 11, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}"'
        f' font-family="sans-serif">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )
