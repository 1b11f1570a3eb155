"""The page docs/benchmarks/resync.md, made of what ``bench_resync`` measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["render", "write_report"]

_HEAD = """# Resync

Written by `bench/bench_resync.py` from [resync.json](resync.json); do not edit it.

Two PostgreSQL servers on one machine, {jobs} jobs; rows of a kilobyte with a bigint key. Measured:
{measured}. Seconds are of the command from start to end, the start of the program among them; CPU
seconds are those of servers and programs together, receive and replay among them where they run.
`COPY by psql` is the peer: the same rows by `COPY` from one server into the other, then the key.
*Equal*: no row of the copy differs; *1 %*: every hundredth does; *all*: every row does; *new*: the
table was never copied. Receive and replay run beside the chunked ones and beside the new ones.
"""

_RATES = """## By write rate

The smallest of these tables, no row of which differs, while two sessions update single rows of it.
*Not in*: replay could not follow the writers here, and the resync was broken off.
Age: of the oldest snapshot that pgrepl had open on the source, looked at ten times a second.
"""


def write_report(folder: Path, result: Mapping[str, Any]) -> None:
    """Write what was measured so far."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "resync.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (folder / "resync.md").write_text(render(result), encoding="utf-8")


def render(result: Mapping[str, Any]) -> str:
    """Return the page."""
    parts = [_HEAD.format(jobs=result["jobs"], measured=result["measured"])]
    if "note" in result:
        parts.append(f"{result['note']}\n")
    sizes: Sequence[Mapping[str, Any]] = result["sizes"]
    header = ["", *(f"{size['mb']:,} MB, {size['rows']:,} rows" for size in sizes)]
    rows = [
        [case, *(_pace(size, case) for size in sizes)]
        for case in dict.fromkeys(case for size in sizes for case in size["figures"])
    ]
    intro = (
        "## By size\n\nSeconds, CPU seconds, megabytes of the table a second, and how old the\n"
        "oldest snapshot of pgrepl on the source became. Larger tables in one case of each way.\n"
    )
    parts += [intro, _table(header, rows)]
    if result["rates"]:
        parts += [
            _RATES,
            _table(
                ["writes/s asked for", "way", "seconds", "writes/s before", "meanwhile", "age s"],
                [_rate(row) for row in result["rates"]],
            ),
        ]
    return "\n".join(parts)


def _pace(size: Mapping[str, Any], case: str) -> str:
    if case not in size["figures"]:
        return ""
    found = size["figures"][case]
    if found is None:
        return "not in time"
    text = f"{found['s']:.1f} s, {found['cpu_s']:.1f} CPU s, {size['mb'] / found['s']:.1f} MB/s"
    return text if "oldest_s" not in found else f"{text}, age {found['oldest_s']:.1f} s"


def _rate(row: Mapping[str, Any]) -> list[str]:
    return [
        row["rate"],
        row["way"],
        f"{row['seconds']:.1f}" if row["is_ended"] else f"not in {row['seconds']:.0f}",
        f"{row['tps_alone']:,.0f}",
        f"{row['tps_meanwhile']:,.0f}",
        f"{row['oldest_s']:.2f}",
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
