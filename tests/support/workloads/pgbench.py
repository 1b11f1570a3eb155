"""PostgreSQL's own benchmark as a workload on a source."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from pgrepl.throwaway import ServerBinaries
from tests.support.database import Database
from tests.support.waiting import wait_until

#: Slow enough for a machine that does other things as well.
_PER_SECOND = 150


def make_pgbench_tables(binaries: ServerBinaries, database: Database) -> None:
    """Make its four tables with 100,000 accounts; the history has no key, and is only added to."""
    arguments = ("--initialize", "--init-steps=dtGp", "--quiet", database.dsn())
    subprocess.run([binaries.program("pgbench"), *arguments], check=True, capture_output=True)


@contextmanager
def pgbench(binaries: ServerBinaries, database: Database) -> Iterator[Pgbench]:
    """Let it work until the block ends; that it ends before is an error."""
    arguments = ("--no-vacuum", "--client=2", "--transactions=1000000", f"--rate={_PER_SECOND}")
    process = subprocess.Popen(
        [binaries.program("pgbench"), *arguments, database.dsn()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    bench = Pgbench(database, process)
    try:
        bench.work(1)
        yield bench
        assert process.poll() is None, "pgbench ended early"
    finally:
        process.terminate()
        _, said = process.communicate()
    assert "ERROR" not in said, said


class Pgbench:
    """One that is at work."""

    def __init__(self, database: Database, process: subprocess.Popen[str]) -> None:
        self._database = database
        self._process = process

    def work(self, count: int) -> None:
        """Wait until it has committed this number of transactions more."""
        goal = self._done() + count

        def is_done() -> bool:
            assert self._process.poll() is None, "pgbench ended early"
            return self._done() >= goal

        wait_until(is_done)

    def _done(self) -> int:
        return int(self._database.value("select count(*) from pgbench_history"))
