"""The Spark job of the first pass: waves of pieces, each piece compared by one task.

Waves keep what comes back small: once enough rows of a table look different, later waves only say
that there are more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgreplError
from pgrepl.verify.compare import Piece, PieceResult, VerifyTask, compare_pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["APP_NAME", "first_pass"]

APP_NAME = "pgrepl-verify"
#: Pieces per core in one wave: a job costs a third of a second, a piece about as much.
_WAVE = 8
#: So many rows of a table are looked at again.
_MOST_CANDIDATES = 10_000


def first_pass(
    session: SparkSession,
    task: VerifyTask,
    pieces: Sequence[Piece],
    jobs: int,
    show: Callable[[int, int], None],
) -> Iterator[PieceResult]:
    """Yield what was found in each piece; ``show`` hears of pieces and rows done.

    Raises
    ------
    PgreplError
        the first that a task met.

    """
    context: Any = session.sparkContext
    found: dict[str, int] = {}
    done = rows = 0
    for begin in range(0, len(pieces), jobs * _WAVE):
        wave = [
            replace(piece, limit=max(0, min(piece.limit, _MOST_CANDIDATES - found.get(name, 0))))
            for piece in pieces[begin : begin + jobs * _WAVE]
            for name in (piece.subject.name,)
        ]
        for result in _run(context, task, wave, jobs):
            found[result.table] = found.get(result.table, 0) + len(result.candidates)
            rows += result.source_rows
            yield result
        done += len(wave)
        show(done, rows)


def _run(context: Any, task: VerifyTask, wave: list[Piece], jobs: int) -> list[PieceResult]:  # noqa: ANN401  pyspark's context has no types
    # More slices than cores, so that none is idle behind a big one.
    slices = min(len(wave), jobs * 2)
    try:
        results = (
            context.parallelize(wave, slices)
            .mapPartitions(lambda pieces: compare_pieces(task, pieces))
            .collect()
        )
    except KeyboardInterrupt:
        with suppress(Exception):
            context.cancelAllJobs()
        raise
    except Exception as exc:
        raise PgreplError(
            "a comparing task ended without a result",
            hint="Look into Spark's log for why.",
        ) from exc
    for result in results:
        if isinstance(result, PgreplError):
            raise result
    return list(results)
