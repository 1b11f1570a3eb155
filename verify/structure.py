"""Whether the tables themselves are the same: columns, types, not null, keys. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pgrepl.verify.report import StructureDifference
from pgrepl.verify.tables import Table

__all__ = ["compare_structure", "compare_tables"]


_UNIQUE_KEY = "unique key"


def compare_structure(
    source: Mapping[tuple[str, str], Table],
    target: Mapping[tuple[str, str], Table],
    without_index: Collection[tuple[str, str]] = (),
) -> list[StructureDifference]:
    """Compare tables with their copies, both by the names that they have on the source.

    ``without_index``: those that lack an index on the target because it calls the source's code.
    """
    found = []
    for key in sorted(source.keys() | target.keys()):
        here, copy = source.get(key), target.get(key)
        if here is not None and copy is not None:
            differences = compare_tables(".".join(key), here, copy)
            is_known = key in without_index
            found += [d for d in differences if not (is_known and d.what == _UNIQUE_KEY)]
        else:
            found.append(
                StructureDifference(
                    table=".".join(key),
                    what="table",
                    source="there" if here is not None else None,
                    target="there" if copy is not None else None,
                )
            )
    return found


def compare_tables(name: str, source: Table, target: Table) -> Iterator[StructureDifference]:
    """Compare a table with its copy."""
    here = {column.name: column for column in source.columns}
    there = {column.name: column for column in target.columns}
    for column in [*here, *(c for c in there if c not in here)]:
        one, other = here.get(column), there.get(column)
        if one is None or other is None:
            yield StructureDifference(
                table=name,
                what=f"column {column}",
                source=None if one is None else one.type,
                target=None if other is None else other.type,
            )
            continue
        for what, mine, copied in (
            ("type", one.type, other.type),
            ("not null", _word(one.is_not_null), _word(other.is_not_null)),
            ("generated", _word(one.is_generated), _word(other.is_generated)),
        ):
            # A plain column that holds the values of a generated one is compared by its rows.
            is_plain_copy = what == "generated" and one.is_generated
            if mine != copied and not is_plain_copy:
                yield StructureDifference(
                    table=name, what=f"{what} of column {column}", source=mine, target=copied
                )
    if source.is_partitioned != target.is_partitioned:
        yield StructureDifference(
            table=name,
            what="partitioned",
            source=_word(source.is_partitioned),
            target=_word(target.is_partitioned),
        )
    if source.primary_key != target.primary_key:
        yield StructureDifference(
            table=name,
            what="primary key",
            source=_listed(source.primary_key),
            target=_listed(target.primary_key),
        )
    # More keys on the target are its owner's business; replay would fail on one that does not hold.
    for key in sorted(set(source.keys) - set(target.keys) - {source.primary_key or ()}):
        yield StructureDifference(table=name, what=_UNIQUE_KEY, source=_listed(key), target=None)


def _word(is_so: bool) -> str:  # noqa: FBT001  a word for a flag
    return "yes" if is_so else "no"


def _listed(columns: tuple[str, ...] | None) -> str | None:
    return None if columns is None else f"({', '.join(columns)})"
