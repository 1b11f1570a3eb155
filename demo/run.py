"""The demonstration, step by step, through the same commands that a person would type."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
from rich.console import Console

from pgrepl.errors import PgreplError
from pgrepl.queries import load_query
from pgrepl.throwaway import Cluster

__all__ = ["run_demo"]

#: A server as packages install it: no logical decoding, and since 15.19 no wal2json.
_OUT_OF_THE_BOX = {"wal_level": "replica"}

_CONFIG = """\
[target]
dsn = "{target}"

[sources.shop]
dsn = "{source}"
"""


def run_demo() -> None:
    """Bring up two servers, let doctor find what is wrong, and mend it with its own script.

    Raises
    ------
    PgreplError
        when a step does not end as it should.

    """
    with (
        tempfile.TemporaryDirectory(prefix="pgrepl-demo-") as folder,
        Cluster(settings=_OUT_OF_THE_BOX) as source,
        Cluster(settings=_OUT_OF_THE_BOX) as target,
    ):
        _Demo(Path(folder), source, target).run()


class _Demo:
    def __init__(self, folder: Path, source: Cluster, target: Cluster) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._config = folder / "pgrepl.toml"
        self._source = source
        self._target = target

    def run(self) -> None:
        major, minor = self._source.binaries.version
        self._title(
            f"Two throwaway servers, PostgreSQL {major}.{minor}, run in {tempfile.gettempdir()}"
        )
        _prepare(self._source, "shop", "source")
        _prepare(self._target, "warehouse", "target")
        self._config.write_text(
            _CONFIG.format(
                source=self._source.dsn("shop", user="pgrepl"),
                target=self._target.dsn("warehouse", user="pgrepl"),
            ),
            encoding="utf-8",
        )
        self._console.print(self._config.read_text(encoding="utf-8"), markup=False)

        self._title("A source that nobody prepared: doctor says what is wrong")
        self._pgrepl("doctor", "--no-spark", expected=20)

        self._title("doctor --sql prints what mends it; psql runs that, and both servers restart")
        script = self._pgrepl("doctor", "--no-spark", "--sql", expected=20, is_captured=True)
        self._console.print(script, markup=False)
        self._psql(script)
        self._source.restart()
        self._target.restart()

        self._title("Now all is well, Spark included")
        self._pgrepl("doctor", expected=0)
        self._title("Done; servers, data and configuration are removed")

    def _title(self, text: str) -> None:
        self._console.rule(f"[bold]{text}", align="left")

    def _pgrepl(self, *arguments: str, expected: int, is_captured: bool = False) -> str:
        """Run pgrepl as a person would, and insist on the exit code that belongs here."""
        self._console.print(f"$ pgrepl {' '.join(arguments)}", style="cyan")
        done = subprocess.run(
            [sys.executable, "-m", "pgrepl.cli", *arguments, "--config", self._config],
            stdout=subprocess.PIPE if is_captured else None,
            text=True,
            check=False,
        )
        if done.returncode != expected:
            raise PgreplError(
                f"the demo expected exit code {expected} of pgrepl {arguments[0]},"
                f" got {done.returncode}"
            )
        self._console.print(f"exit code {done.returncode}\n", style="dim")
        return done.stdout or ""

    def _psql(self, script: str) -> None:
        psql = self._source.binaries.program("psql")
        done = subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self._source.dsn()],
            input=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PgreplError(f"psql did not accept the script of doctor: {done.stderr.strip()}")


def _prepare(cluster: Cluster, dbname: str, script: str) -> None:
    """Make a database and fill it with one of our scripts."""
    cluster.create_database(dbname)
    with psycopg.connect(cluster.dsn(dbname)) as connection:
        connection.execute(load_query("pgrepl.demo", script))
