"""The workers that copy: each takes part after part until none is left.

So each connects once, imports the snapshot once, and is never idle while a part is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress

from pgrepl.background import BackgroundCall
from pgrepl.basebackup.rows.parts import TablePart
from pgrepl.basebackup.rows.task import CopyTask, run_task
from pgrepl.config.model import SparkConfig
from pgrepl.errors import PgreplError
from pgrepl.parallel import Workers, start_workers

__all__ = ["CopyWorkers", "copy_parts", "start_copy_workers"]

_APP_NAME = "pgrepl-basebackup"

CopyWorkers = Workers[CopyTask, Sequence[PgreplError]]


def start_copy_workers(
    config: SparkConfig, jobs: int | None, *, is_local: bool = False
) -> CopyWorkers:
    """Get workers ready while the slot and the schema are made."""
    return start_workers(run_task, config, _APP_NAME, jobs, is_local=is_local)


def copy_parts(
    workers: CopyWorkers,
    task: CopyTask,
    parts: Sequence[TablePart],
    poll: Callable[[], None],
    interval_s: float,
) -> None:
    """Copy the parts of a task, calling ``poll`` in between and once at the end.

    Raises
    ------
    PgreplError
        the first that a worker met.

    """
    count = min(workers.jobs, len(parts) or 1)
    copying = BackgroundCall(lambda: workers.run([task] * count))
    while not copying.wait(interval_s):
        poll()
    outcomes = copying.result()
    errors = [error for outcome in outcomes for error in _errors_of(outcome)]
    # Also after an error: what is whole stays. An error that follows it says less.
    with suppress(PgreplError) if errors else nullcontext():
        poll()
    if errors:
        raise _first(errors)


def _errors_of(outcome: Sequence[PgreplError] | PgreplError) -> Sequence[PgreplError]:
    return [outcome] if isinstance(outcome, PgreplError) else outcome


def _first(errors: Sequence[PgreplError]) -> PgreplError:
    # A worker that died says less than one that knows why.
    first = next((error for error in errors if type(error) is not PgreplError), errors[0])
    if len(errors) == 1:
        return first
    return type(first)(f"{first.message}, and {len(errors) - 1} more errors", hint=first.hint)
