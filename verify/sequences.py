"""Whether the sequences are the same, and how far their values lag."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgrepl.catalog.sequences import Sequence, read_sequences
from pgrepl.postgres.connect import Connection
from pgrepl.verify.report import SequenceFinding

__all__ = ["compare_sequences", "read_by_name"]


def read_by_name(
    connection: Connection, schemas: Mapping[str, str]
) -> dict[tuple[str, str], Sequence]:
    """Read the sequences of schemas; ``schemas`` gives the name under which each is returned."""
    return {(schemas[row.schema], row.name): row for row in read_sequences(connection, schemas)}


def compare_sequences(
    source: Mapping[tuple[str, str], Sequence], target: Mapping[tuple[str, str], Sequence]
) -> Iterator[SequenceFinding]:
    """Compare the copies' sequences with the source's; others of the source are not replicated."""
    for key, copy in sorted(target.items()):
        name = ".".join(key)
        here = source.get(key)
        if here is None:
            yield SequenceFinding(
                name=name, what="sequence", source=None, target="there", is_difference=True
            )
            continue
        for what, mine, copied in (
            ("type", here.data_type, copy.data_type),
            ("increment", here.increment_by, copy.increment_by),
            ("cycle", here.is_cycle, copy.is_cycle),
        ):
            if mine != copied:
                yield SequenceFinding(
                    name=name, what=what, source=str(mine), target=str(copied), is_difference=True
                )
        if _lags(here, copy):
            yield SequenceFinding(
                name=name,
                what="value",
                source=str(here.last_value),
                target=None if copy.last_value is None else str(copy.last_value),
                is_difference=False,
            )


def _lags(source: Sequence, target: Sequence) -> bool:
    if source.last_value is None:
        return False
    if target.last_value is None:
        return True
    step = 1 if source.increment_by > 0 else -1
    return step * target.last_value < step * source.last_value
