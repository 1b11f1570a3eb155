"""Judge copies that are not called like their tables. Pure: facts in, finding out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.config.naming import shown_name
from pgrepl.config.rules import Rules
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.store.tables.places import CopyPlace, move_tables

__all__ = ["check_table_names"]


def check_table_names(copies: Sequence[CopyPlace], rules: Mapping[str, Rules]) -> Finding:
    """Copies are called what rules say, and nothing else has the names of their tables."""
    taken = [copy for copy in copies if copy.is_name_taken]
    if taken:
        names = tuple(shown_name(copy.place[0], copy.key[1]) for copy in taken)
        return Finding(
            "table-names",
            Status.FAILURE,
            "something else has the name of a table whose copy has another one: DDL cannot be"
            f" applied to that copy: {listed(names)}",
            Remedy(then="give it another name or another schema"),
            names,
        )
    wanted = {copy: rules[copy.source].target_table(*copy.key) for copy in copies}
    moved = {copy: name for copy, name in wanted.items() if name != copy.place[1]}
    if not moved:
        return Finding.ok(
            "table-names", f"{len(copies)} with a name of their own" if copies else "none"
        )
    told = tuple(
        f'{shown_name(*copy.key)} of source "{copy.source}" is {shown_name(*copy.place)}, the'
        f' configuration says "{name}"'
        for copy, name in moved.items()
    )
    return Finding(
        "table-names",
        Status.WARNING,
        f"copies keep the names that they have: {listed(told)}",
        Remedy.of(
            *move_tables(moved),
            then="while replay and resyncs of the source are stopped; or correct the name",
        ),
        told,
    )
