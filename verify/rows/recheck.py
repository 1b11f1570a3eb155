"""Look again at the rows that looked different, until each is settled or time is up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pgrepl.errors import TargetError
from pgrepl.verify.position import Follower
from pgrepl.verify.report import DifferenceKind, RowDifference
from pgrepl.verify.rows.compare import Sides
from pgrepl.verify.rows.settle import Item, Pair, RowState, Settlement
from pgrepl.verify.tables import Subject

__all__ = ["Recheck", "describe"]

#: Number of rounds; a row that is written between any two of them is left unsettled.
_MOST_ROUNDS = 12
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Recheck:
    """The rounds for all tables at once, so that all wait together."""

    sides: Sides
    follower: Follower

    def settle(self, settlements: Mapping[Subject, Settlement]) -> TargetError | None:
        """Run rounds until nothing is open, or return why the rest must stay open."""
        lag: TargetError | None = None
        late: set[Subject] = set()
        for _ in range(_MOST_ROUNDS):
            pending = {
                subject: work.open_items
                for subject, work in settlements.items()
                if work.open_items and subject not in late
            }
            if not pending:
                break
            here = {s: self._states(s, items, is_source=True) for s, items in pending.items()}
            passage = self.follower.catch_up(
                self.sides.source, self.sides.task.source, [s.source.key for s in pending]
            )
            for subject, items in pending.items():
                if passage.has(subject.source.key):
                    there = self._states(subject, items, is_source=False)
                    settlements[subject].take_round(here[subject], there)
                else:
                    lag = passage.error
                    late.add(subject)
        return lag

    def _states(
        self, subject: Subject, items: Sequence[Item], *, is_source: bool
    ) -> dict[Item, RowState]:
        source, target = self.sides.statements(subject)
        found: dict[Item, RowState] = {}
        for batch in _batches(items):
            if is_source:
                rows = self.sides.ask_source(subject, source.states(batch))
            else:
                rows = self.sides.ask_target(subject, target.states(batch))
            found |= {batch[n - 1]: RowState(value, version) for n, value, version in rows}
        return found


def describe(
    sides: Sides, subject: Subject, differences: Mapping[Item, Pair], *, with_rows: bool
) -> Iterator[RowDifference]:
    """Say of each difference what it is; values leave the databases only to be compared."""
    items = list(differences)
    source, target = sides.statements(subject)
    for batch in _batches(items):
        here = _values(subject, sides.ask_source(subject, source.values(batch)))
        there = _values(subject, sides.ask_target(subject, target.values(batch)))
        for number, item in enumerate(batch, 1):
            pair = differences[item]
            one, other = here.get(number), there.get(number)
            both = zip(subject.columns, one or (), other or (), strict=False)
            is_changed = pair.source is not None and pair.target is not None
            yield RowDifference(
                kind=_kind(subject, pair),
                key=dict(zip(subject.key, item, strict=True)) if subject.key else {},
                columns=[c for c, a, b in both if a != b] if is_changed and subject.key else [],
                count=_count(subject, pair),
                source_row=_shown(subject, one) if with_rows else None,
                target_row=_shown(subject, other) if with_rows else None,
            )


def _kind(subject: Subject, pair: Pair) -> DifferenceKind:
    if subject.key is None:
        return "missing" if _times(pair.source) > _times(pair.target) else "extra"
    if pair.source is None:
        return "extra"
    return "missing" if pair.target is None else "changed"


def _count(subject: Subject, pair: Pair) -> int:
    return 1 if subject.key else abs(_times(pair.source) - _times(pair.target))


def _times(state: RowState | None) -> int:
    return 0 if state is None else int(state.value)


def _values(
    subject: Subject, rows: Sequence[tuple[int, list[str | None]]]
) -> dict[int, list[str | None]]:
    return {n: texts for n, texts in rows if len(texts) == len(subject.columns)}


def _shown(subject: Subject, texts: list[str | None] | None) -> dict[str, str | None] | None:
    return None if texts is None else dict(zip(subject.columns, texts, strict=True))


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, _BATCH)):
        yield batch
