"""How the replayer paces itself. The defaults are what the command uses; tests use smaller ones."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReplaySettings"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Sizes and times."""

    #: Bytes of spool that a task folds at a time, up to the second where there are many tables
    #: among them. It takes a few times as much memory, and reads the next while it applies one.
    step_bytes: int = 16 * _MIB
    chunk_bytes: int = 64 * _MIB
    #: The most changes and segments of a source in a batch, whatever its seconds.
    batch_changes: int = 2_000_000
    batch_segments: int = 5_000
    #: The most transactions with DDL or TRUNCATE that follow one another, and the most changes in
    #: them, that are applied in one transaction of the target: readers wait for its locks.
    serial_segments: int = 50
    serial_changes: int = 10_000
    #: The most changes of a batch that the driver applies itself while Spark starts; a run that
    #: has no more than that in all does without Spark.
    driver_changes: int = 10_000
    #: Spark's part in a job grows with its tasks: shards that have no more changes than so between
    #: them are applied in one task, one after the other.
    one_task_changes: int = 2_000
    #: Batches of several sources are one job. One with more changes has a job and a thread of its
    #: own, as has one that took longer than so for a statement: none holds up another.
    shared_changes: int = 10_000
    shared_s: float = 2.0
    #: How long replay waits for such a thread before it looks after the others again.
    thread_s: float = 0.05
    #: From this number of changes in a chunk on, a table is applied in several sessions.
    slice_changes: int = 10_000
    #: How long any other lock than one on a replicated table is waited for, and how often a task
    #: tries.
    lock_timeout_s: float = 10.0
    attempts: int = 3
    #: How long a lock on a replicated table, or on its rows, is waited for: all other tables of the
    #: batch wait with it. Once one is locked, the next ones of a chunk get the second.
    table_lock_s: float = 0.2
    next_table_lock_s: float = 0.02
    #: A TRUNCATE waits longer: the server ends an autovacuum of the table after deadlock_timeout.
    truncate_lock_s: float = 2.0
    #: Whoever holds a lock for longer is named.
    blocker_s: float = 2.0
    #: Batches begin so far apart: a change that comes alone is applied at once, many together. The
    #: price of a batch is 25 ms of CPU, most of it that of Spark's job.
    pace_s: float = 0.35
    #: While a receiver catches up they begin up to so far apart, unless so much has arrived: up to
    #: ``chunk_bytes`` where changes are of the same rows again and again.
    hold_s: float = 2.0
    hold_bytes: int = 8 * _MIB
    #: With nothing to do, the daemon looks so often whether a notification was missed.
    idle_s: float = 5.0
    #: Attempts after an error begin with the first and end with the second.
    backoff_s: float = 0.5
    backoff_limit_s: float = 30.0
    #: How often the log says how far we are.
    report_s: float = 10.0
