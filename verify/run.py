"""One comparison of a source with its copy, from the structure to single rows."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from pgrepl.catalog.tables import read_tables
from pgrepl.catalog.unreadable import Unreadable, read_unreadable
from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.rules import Rules
from pgrepl.errors import TargetError, UsageError
from pgrepl.postgres.advisory_locks import copy_lock, find_holder
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.migrations import migrate
from pgrepl.store.skipped_code import read_skipped
from pgrepl.store.sources import SourceRow, find_source
from pgrepl.store.tables.places import Places, read_places
from pgrepl.store.tables.source_tables import Condition, read_conditions
from pgrepl.store.tables.table_marks import mark_verified
from pgrepl.terminal import command
from pgrepl.verify.position import Follower
from pgrepl.verify.report import (
    SequenceFinding,
    StructureDifference,
    TableReport,
    VerifyOptions,
    VerifyReport,
    Watcher,
)
from pgrepl.verify.rows.compare import Piece, Sides, VerifyTask
from pgrepl.verify.rows.job import VerifyWorkers, first_pass, start_verify_workers
from pgrepl.verify.rows.plan import cut, sampled
from pgrepl.verify.rows.recheck import Recheck, describe
from pgrepl.verify.rows.settle import Item, Settlement
from pgrepl.verify.rows.statements import DIGEST_PROBE, Digest
from pgrepl.verify.sequences import compare_sequences, read_by_name
from pgrepl.verify.structure import compare_structure
from pgrepl.verify.tables import Subject, Table, make_subject, read_details, with_masks

__all__ = ["verify_source"]

#: How often a piece is compared in which more changes than can be looked at one by one.
_MOST_PASSES = 3

Details = Mapping[tuple[str, str], Table]


def verify_source(
    config: Config, source: SourceConfig, options: VerifyOptions, watcher: Watcher
) -> VerifyReport:
    """Compare a source with its copy while replication goes on.

    Raises
    ------
    PgreplError
        when a side cannot be read. Differences are not raised but reported.

    """
    begin = time.monotonic()
    with ExitStack() as stack:
        task = VerifyTask(
            source=source.endpoint,
            target=config.target.endpoint,
            digest=Digest.PORTABLE,
            salts=source.rules.salts(),
        )
        sides = stack.enter_context(closing(Sides(task)))
        migrate(sides.target, task.target)
        with translated(task.target, "cannot read the state of the replication"):
            row = _checked(source, find_source(sides.target, source.name))
            places = read_places(sides.target, row.source_id)
        follower = Follower(sides.target, task.target, row, options.patience_s)
        run = _Run(source, options, watcher, sides, follower, row, places)
        subjects = run.compare_structure()
        # What is wrong with names or servers is known by now, without a wait for workers.
        workers = start_verify_workers(config.spark, options.jobs)
        stack.callback(workers.stop)
        run.compare_rows(workers, subjects)
        run.mark(subjects)
        run.report.seconds = time.monotonic() - begin
        return run.report


def _checked(source: SourceConfig, row: SourceRow | None) -> SourceRow:
    if row is None or row.state != "streaming":
        state = "was never copied" if row is None else f'is in state "{row.state}"'
        raise TargetError(
            f'source "{source.name}" {state}, so there is nothing to compare',
            hint=f"Run: {command('basebackup', source.name)}",
        )
    return row


@dataclass(slots=True)
class _Run:
    source: SourceConfig
    options: VerifyOptions
    watcher: Watcher
    sides: Sides
    follower: Follower
    row: SourceRow
    #: Where the copies are.
    places: Places
    report: VerifyReport = field(init=False)

    def __post_init__(self) -> None:
        self.report = VerifyReport(source=self.source.name)

    # --- structure ----------------------------------------------------------------------------

    def compare_structure(self) -> list[Subject]:
        """Compare tables and sequences; what differs is read again when the target has passed."""
        self.watcher.begin("structure")
        here, there = self._details()
        structure, sequences = self._structure(here, there)
        if structure or any(finding.is_difference for finding in sequences):
            passage = self.follower.catch_up(self.sides.source, self.sides.task.source)
            self.report.error = passage.error
            here, there = self._details()
            again = self._structure(here, there)
            shown = {".".join(key) for key in here.keys() | there.keys() if passage.has(key)}
            structure = [found for found in structure if found in again[0] and found.table in shown]
            sequences = again[1]
        self.report.structure = structure
        self.report.sequences = sequences
        self.report.unreadable = self._unreadable(here)
        return self._subjects(here, there)

    def _details(self) -> tuple[Details, Details]:
        wanted = self.options.tables
        with translated(self.sides.task.source, "cannot read the catalogue"):
            tables = [
                table
                for table in read_tables(self.sides.source, Rules())
                if self.source.selection.matches(table.root_schema, table.root_name)
                and not table.is_unlogged
                and (
                    wanted is None
                    or wanted.matches(*table.key)
                    or wanted.matches(table.root_schema, table.root_name)
                )
            ]
            found = read_details(self.sides.source, {table.schema for table in tables})
        here = with_masks(
            {table.key: found[table.key] for table in tables if table.key in found},
            self.source.rules,
        )
        if wanted is not None and not here:
            raise UsageError(
                f'no replicated table of source "{self.source.name}" matches the names given',
                hint="Write schema.table as on the source; * stands for any characters.",
            )
        with translated(self.sides.task.target, "cannot read the catalogue"):
            # Replay may have given a copy another name since.
            self.places = read_places(self.sides.target, self.row.source_id)
            copies = read_details(self.sides.target, self.places.schemas.values())
        there = {
            key: copies[place]
            for place, key in self.places.keys(copies).items()
            if key in here or (wanted is None and self.source.selection.matches(*key))
        }
        return here, there

    def _structure(
        self, here: Details, there: Details
    ) -> tuple[list[StructureDifference], list[SequenceFinding]]:
        with translated(self.sides.task.target, "cannot read what was skipped"):
            skipped = read_skipped(self.sides.target, self.row.source_id)
        without_index = {(i.schema_name, i.table_name) for i in skipped if i.kind == "index"}
        structure = compare_structure(here, there, without_index)
        if self.options.tables is not None:
            return structure, []
        names = {schema: schema for schema in self.places.schemas}
        copies = {target: schema for schema, target in self.places.schemas.items()}
        with translated(self.sides.task.source, "cannot read the sequences"):
            source = read_by_name(self.sides.source, names)
        with translated(self.sides.task.target, "cannot read the sequences"):
            target = read_by_name(self.sides.target, copies)
        return structure, list(compare_sequences(source, target))

    def _unreadable(self, here: Details) -> list[Unreadable]:
        """Return what of the tables and sequences to compare cannot be read."""
        with translated(self.sides.task.source, "cannot read the privileges"):
            found = read_unreadable(self.sides.source)
        with translated(self.sides.task.target, "cannot read the sequences"):
            copies = read_by_name(
                self.sides.target,
                {target: schema for schema, target in self.places.schemas.items()},
            )
        with_sequences = self.options.tables is None
        return [
            item
            for item in found
            if (with_sequences and item.key in copies if item.is_sequence else item.key in here)
        ]

    def _subjects(self, here: Details, there: Details) -> list[Subject]:
        with translated(self.sides.task.target, "cannot read the state of the tables"):
            is_copying = find_holder(self.sides.target, copy_lock(self.source.name)) is not None
            conditions = read_conditions(self.sides.target, self.row.source_id)
        closed = {item.key: item for item in self.report.unreadable if not item.is_sequence}
        subjects = []
        for key in sorted(here.keys() & there.keys()):
            if here[key].is_partitioned or there[key].is_partitioned:
                continue
            subject = make_subject(here[key], there[key])
            condition = conditions.get(key)
            is_ready, note = (True, None) if condition is None else _judge(condition)
            is_copied_now = condition is not None and condition.state == "copying" and is_copying
            if key in closed:
                is_ready, note = False, f"not compared: {closed[key].reason}"
            if note is None and subject.key is None:
                note = "has no key: compared as a whole"
            target = subject.target
            self.report.tables.append(
                TableReport(
                    name=subject.name,
                    target_name=f"{target.schema}.{target.name}",
                    note=note,
                    failure=None if is_ready or is_copied_now or key in closed else note,
                )
            )
            if is_ready:
                subjects.append(subject)
        return subjects

    # --- rows ---------------------------------------------------------------------------------

    def compare_rows(self, workers: VerifyWorkers, subjects: Sequence[Subject]) -> None:
        """Compare the tables range by range, and single rows where ranges differ."""
        self.sides.task = replace(self.sides.task, digest=self._digest())
        self.watcher.begin("ranges")
        pieces = [piece for subject in subjects for piece in self._pieces(subject)]
        self.watcher.begin("rows")
        self._compare_pieces(workers, pieces)

    def _digest(self) -> Digest:
        with translated(self.sides.task.source, "cannot try its hash"):
            here = self.sides.source.execute(DIGEST_PROBE).fetchall()
        with translated(self.sides.task.target, "cannot try its hash"):
            there = self.sides.target.execute(DIGEST_PROBE).fetchall()
        return Digest.FAST if here == there else Digest.PORTABLE

    def _pieces(self, subject: Subject) -> list[Piece]:
        table = self._table(subject)
        pieces = list(cut(self.sides.source, self.sides.task.source, subject))
        # Which part of a table is looked at is no secret.
        chosen = sampled(pieces, self.options.sample, random.Random())  # noqa: S311
        table.piece_count, table.compared_count = len(pieces), len(chosen)
        return chosen

    def _compare_pieces(self, workers: VerifyWorkers, pieces: Sequence[Piece]) -> None:
        settlements: dict[Subject, Settlement] = {}
        pending = list(pieces)
        for number in range(_MOST_PASSES):
            if not pending:
                break
            cut_short = self._look_for(workers, pending, settlements, is_first=number == 0)
            if any(settlement.open_items for settlement in settlements.values()):
                self.watcher.begin("second look")
            lag = Recheck(self.sides, self.follower).settle(settlements)
            self.report.error = self.report.error or lag
            pending = []
            for piece in cut_short:
                if settlements[piece.subject].differences:
                    self._table(piece.subject).has_more = True
                else:
                    pending.append(piece)
            if lag is not None:
                # It would look the same again.
                break
        for piece in pending:
            # More changed than can be looked at one by one, each time.
            self._table(piece.subject).unsettled_piece_count += 1
        for subject, settlement in settlements.items():
            table = self._table(subject)
            table.unsettled_count += len(settlement.open_items)
            table.differences += describe(
                self.sides, subject, settlement.differences, with_rows=self.options.with_rows
            )

    def _look_for(
        self,
        workers: VerifyWorkers,
        pieces: Sequence[Piece],
        settlements: dict[Subject, Settlement],
        *,
        is_first: bool,
    ) -> list[Piece]:
        """Add the rows that look different, and return the pieces that have more of them."""
        found = self._pass(workers, pieces, is_first=is_first)
        for piece, (candidates, _) in zip(pieces, found, strict=True):
            settlements.setdefault(piece.subject, Settlement(())).add(candidates)
        return [piece for piece, (_, is_cut) in zip(pieces, found, strict=True) if is_cut]

    def _pass(
        self, workers: VerifyWorkers, pieces: Sequence[Piece], *, is_first: bool
    ) -> list[tuple[Sequence[Item], bool]]:
        def show(done: int, rows: int) -> None:
            self.watcher.show(done, len(pieces), rows)

        tables = {table.name: table for table in self.report.tables}
        found: list[tuple[Sequence[Item], bool]] = []
        for result in first_pass(workers, self.sides.task, pieces, show):
            if is_first:
                tables[result.table].source_rows += result.source_rows
                tables[result.table].target_rows += result.target_rows
            found.append((result.candidates, result.is_cut))
        return found

    def mark(self, subjects: Sequence[Subject]) -> None:
        """Mark tables that differ for a resync; take that back from those that were made equal."""
        tables = [(subject.source.key, self._table(subject)) for subject in subjects]
        differing = {key for key, table in tables if table.differences or table.has_more}
        equal = {
            key
            for key, table in tables
            if key not in differing
            and table.compared_count == table.piece_count
            and not table.unsettled_count
            and not table.unsettled_piece_count
            and self.report.error is None
        }
        with translated(self.sides.task.target, "cannot mark the tables"):
            mark_verified(self.sides.target, self.row.source_id, differing=differing, equal=equal)

    def _table(self, subject: Subject) -> TableReport:
        return next(table for table in self.report.tables if table.name == subject.name)


def _judge(condition: Condition) -> tuple[bool, str | None]:
    """Return whether a table can be compared, and what is to be said of it."""
    if condition.state == "copying":
        return False, "not compared: its copy is not finished"
    if condition.state == "pending":
        why = condition.resync_reason or "it was never copied"
        return False, f"not compared: it waits for its copy: {why}"
    if condition.resync_reason is not None:
        return True, f"needs a resync: {condition.resync_reason}"
    if condition.parked_reason is not None:
        return True, f"its changes are parked: {condition.parked_reason}"
    return True, None
