"""The first pass: waves of pieces, compared by several workers at once.

Waves keep what comes back small: once enough rows of a table look different, later waves only say
that there are more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pgrepl.config.model import SparkConfig
from pgrepl.errors import PgreplError
from pgrepl.parallel import Workers, start_workers
from pgrepl.verify.rows.compare import Batch, Piece, PieceResult, VerifyTask, compare_batch

__all__ = ["VerifyWorkers", "first_pass", "start_verify_workers"]

_APP_NAME = "pgrepl-verify"
#: Pieces per worker in one wave: a job of Spark costs a third of a second, a piece about as much.
_WAVE = 8
#: Batches per worker in one wave, so that none is idle while another has a big piece.
_BATCHES = 2
#: Number of rows of a table that are looked at again.
_MOST_CANDIDATES = 10_000

VerifyWorkers = Workers[Batch, Sequence[PieceResult | PgreplError]]


def start_verify_workers(config: SparkConfig, jobs: int | None) -> VerifyWorkers:
    """Get workers ready."""
    return start_workers(compare_batch, config, _APP_NAME, jobs)


def first_pass(
    workers: VerifyWorkers,
    task: VerifyTask,
    pieces: Sequence[Piece],
    show: Callable[[int, int], None],
) -> Iterator[PieceResult]:
    """Yield what was found in each piece; ``show`` hears of pieces and rows done.

    Raises
    ------
    PgreplError
        the first that a worker met.

    """
    found: dict[str, int] = {}
    done = rows = 0
    size = workers.jobs * _WAVE
    for begin in range(0, len(pieces), size):
        wave = [
            replace(piece, limit=max(0, min(piece.limit, _MOST_CANDIDATES - found.get(name, 0))))
            for piece in pieces[begin : begin + size]
            for name in (piece.subject.name,)
        ]
        for result in _run(workers, task, wave):
            found[result.table] = found.get(result.table, 0) + len(result.candidates)
            rows += result.source_rows
            yield result
        done += len(wave)
        show(done, rows)


def _run(workers: VerifyWorkers, task: VerifyTask, wave: Sequence[Piece]) -> list[PieceResult]:
    size = -(-len(wave) // (workers.jobs * _BATCHES))
    batches = [Batch(task, wave[i : i + size]) for i in range(0, len(wave), size)]
    results: list[PieceResult] = []
    for outcome in workers.run(batches):
        for result in [outcome] if isinstance(outcome, PgreplError) else outcome:
            if isinstance(result, PgreplError):
                raise result
            results.append(result)
    return results
