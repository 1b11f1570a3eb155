"""Judge copied tables that the patterns do not take in any more. Pure: facts in, finding out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.terminal import command

__all__ = ["check_passed_over"]


def check_passed_over(tables: Mapping[str, Sequence[str]]) -> Finding:
    """Every copy gets changes; ``tables`` leads from sources to those of theirs that do not."""
    names = [name for of_source in tables.values() for name in of_source]
    if not names:
        return Finding.ok("passed-over", "the patterns take in every table that was copied")
    return Finding(
        "passed-over",
        Status.WARNING,
        "tables that were copied and that the patterns do not take in any more: once pgrepl receive"
        " runs with these patterns their changes are passed over, and their copies stay as they"
        f" are: {listed(names)}",
        Remedy(
            shell=tuple(
                command("resync", source, *of_source[:3])
                for source, of_source in tables.items()
                if of_source
            ),
            then="that is after taking them in again in pgrepl.toml and restarting pgrepl receive;"
            " or drop their copies",
        ),
        tuple(names),
    )
