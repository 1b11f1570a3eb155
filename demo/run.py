"""The demonstration, step by step, through the same commands that a person would type."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal
from rich.console import Console

from pgrepl.demo.workload import Workload
from pgrepl.errors import PgreplError
from pgrepl.queries import load_query
from pgrepl.throwaway import Cluster

__all__ = ["run_demo"]

#: A server as packages install it: no logical decoding, and since 15.19 no wal2json.
_OUT_OF_THE_BOX = {"wal_level": "replica"}

_SOURCES = ("shop", "market")


def run_demo() -> None:
    """Bring two live sources into one target.

    Raises
    ------
    PgreplError
        when a step does not end as it should.

    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrepl-demo-"))
        sources = {
            name: stack.enter_context(Cluster(settings=_OUT_OF_THE_BOX)) for name in _SOURCES
        }
        target = stack.enter_context(Cluster(settings=_OUT_OF_THE_BOX))
        _Demo(Path(folder), sources, target).run()


class _Demo:
    def __init__(self, folder: Path, sources: dict[str, Cluster], target: Cluster) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._config = folder / "pgrepl.toml"
        self._sources = sources
        self._target = target

    def run(self) -> None:
        self._prepare()
        self._mend()
        with ExitStack() as stack:
            shops = {
                name: stack.enter_context(Workload(cluster.dsn(name)))
                for name, cluster in self._sources.items()
            }
            self._copy()
            self._receive()
        self._title("The shops have closed; what they did last is received too")
        for name in self._sources:
            self._pgrepl("receive", name, "--once")
        for name, shop in shops.items():
            self._compare(name, shop.count)
        self._title("Done; servers, data and configuration are removed")

    def _prepare(self) -> None:
        major, minor = self._target.binaries.version
        self._title(f"Three throwaway servers, PostgreSQL {major}.{minor}: two sources, one target")
        for name, cluster in self._sources.items():
            _fill(cluster, name, "source")
        _fill(self._target, "warehouse", "target")
        lines = ["[target]", f'dsn = "{self._target.dsn("warehouse", user="pgrepl")}"']
        for name, cluster in self._sources.items():
            lines += ["", f"[sources.{name}]", f'dsn = "{cluster.dsn(name, user="pgrepl")}"']
        self._config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._console.print(self._config.read_text(encoding="utf-8"), markup=False)

    def _mend(self) -> None:
        self._title("Sources that nobody prepared: doctor says what is wrong")
        self._pgrepl("doctor", "--no-spark", expected=20)
        self._title("doctor --sql prints what mends it; psql runs that, and the servers restart")
        script = self._pgrepl("doctor", "--no-spark", "--sql", expected=20, is_captured=True)
        self._console.print(script, markup=False)
        self._psql(script)
        for cluster in (*self._sources.values(), self._target):
            cluster.restart()
        self._title("Now all is well, Spark included")
        self._pgrepl("doctor")

    def _copy(self) -> None:
        self._title("The shops open: each is copied at one exact LSN while customers buy")
        for name in self._sources:
            self._pgrepl("basebackup", name)

    def _receive(self) -> None:
        self._title("What was committed since is received into the spool, while customers buy")
        for name in self._sources:
            self._pgrepl("receive", name, "--once")

    def _compare(self, name: str, transaction_count: int) -> None:
        """Copy and spool together must hold every purchase once."""
        bought = _count(self._sources[name].dsn(name), SQL("select count(*) from purchase"))
        warehouse = self._target.dsn("warehouse")
        table = Identifier(f"{name}_public", "purchase")
        copied = _count(warehouse, SQL("select count(*) from {}").format(table))
        spooled = _count(
            warehouse,
            SQL(
                "select count(*) from replication.messages"
                " where source = {} and action = 'I' and table_name = 'purchase'"
            ).format(Literal(name)),
        )
        self._console.print(
            f"{name}: {bought} purchases, {transaction_count} of them during the demo;"
            f" {copied} in the copy + {spooled} in the spool = {copied + spooled}"
        )
        if copied + spooled != bought or not spooled:
            raise PgreplError(f'source "{name}": copy and spool do not make up the source')

    def _title(self, text: str) -> None:
        self._console.rule(f"[bold]{text}", align="left")

    def _pgrepl(self, *arguments: str, expected: int = 0, is_captured: bool = False) -> str:
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
        psql = self._target.binaries.program("psql")
        done = subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self._target.dsn()],
            input=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PgreplError(f"psql did not accept the script of doctor: {done.stderr.strip()}")


def _fill(cluster: Cluster, dbname: str, script: str) -> None:
    """Make a database and fill it with one of our scripts."""
    cluster.create_database(dbname)
    with psycopg.connect(cluster.dsn(dbname)) as connection:
        connection.execute(load_query("pgrepl.demo", script))


def _count(dsn: str, query: SQL | Composed) -> int:
    with psycopg.connect(dsn) as connection:
        ((count,),) = connection.execute(query).fetchall()
    return int(count)
