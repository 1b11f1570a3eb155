"""The demonstration, step by step, through the same commands that a person would type."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.demo.console import DemoConsole, fill
from pgrepl.demo.workload import Workload
from pgrepl.errors import PgreplError
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


class _Demo(DemoConsole):
    def __init__(self, folder: Path, sources: dict[str, Cluster], target: Cluster) -> None:
        super().__init__(folder)
        self._sources = sources
        self._target = target

    def run(self) -> None:
        self._prepare()
        self._mend()
        self._capture_ddl()
        with ExitStack() as stack:
            shops = {
                name: stack.enter_context(Workload(cluster.dsn(name)))
                for name, cluster in self._sources.items()
            }
            self._copy()
            with self._services():
                self._watch()
                self._change_schema()
        self._title("The shops have closed; what they did last follows")
        for name in self._sources:
            self._pgrepl("receive", name, "--once")
        self._pgrepl("replay", "--once")
        for name, shop in shops.items():
            self._compare(name, shop.count)
        self._pgrepl("status")
        self._title("Row for row, sources and target are equal")
        self._pgrepl("verify")
        self._title("Done; servers, data and configuration are removed")

    def _prepare(self) -> None:
        major, minor = self._target.binaries.version
        self._title(f"Three throwaway servers, PostgreSQL {major}.{minor}: two sources, one target")
        for name, cluster in self._sources.items():
            fill(cluster, name, "source")
        fill(self._target, "warehouse", "target")
        lines = ["[target]", f'dsn = "{self._target.dsn("warehouse", user="pgrepl")}"']
        for name, cluster in self._sources.items():
            lines += ["", f"[sources.{name}]", f'dsn = "{cluster.dsn(name, user="pgrepl")}"']
        self._config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._console.print(self._config.read_text(encoding="utf-8"), markup=False)

    def _mend(self) -> None:
        self._title("Sources that nobody prepared: doctor says what is wrong")
        self._pgrepl("doctor", "--no-spark", expected=20)
        self._title("doctor --sql prints what fixes it; psql runs that, and the servers restart")
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

    def _capture_ddl(self) -> None:
        self._title("A superuser lets schema changes be captured, so that they follow too")
        for name, cluster in self._sources.items():
            script = self._pgrepl("ddl", "install", name, "--sql", is_captured=True)
            self._psql(script, cluster.dsn(name))

    @contextmanager
    def _services(self) -> Iterator[None]:
        """Run receivers and the replayer as a service manager would."""
        self._title("Received and replayed from now on, while customers buy")
        commands = [*(("receive", name) for name in self._sources), ("replay",)]
        log = self._config.with_name("services.log")
        with log.open("w", encoding="utf-8") as output:
            processes = [self._start(output, *command) for command in commands]
            try:
                yield
                _end(processes)
            except PgreplError:
                self._console.print(log.read_text(encoding="utf-8"), markup=False)
                raise
            finally:
                for process in processes:
                    process.kill()
                    process.wait()

    def _watch(self) -> None:
        """Show the status when replay has caught up with what is bought now."""
        for name, cluster in self._sources.items():
            with psycopg.connect(cluster.dsn(name)) as connection:
                ((lsn,),) = connection.execute(
                    "select pg_current_wal_insert_lsn()::text"
                ).fetchall()
            self._wait_for(name, lsn)
        self._pgrepl("status")

    def _change_schema(self) -> None:
        self._title("A migration on a live shop follows by itself")
        statements = (
            "alter table customer add column club text not null default 'none'",
            "create table voucher (code text primary key, customer_id bigint)",
            "grant select on voucher to pgrepl",
            "insert into voucher select 'V' || id, id from customer where id <= 100",
            "update customer set club = 'gold' where id <= 100",
        )
        shop = self._sources["shop"].dsn("shop")
        with psycopg.connect(shop, autocommit=True) as connection:
            for statement in statements:
                self._console.print(f"shop=# {statement};", style="cyan", markup=False)
                connection.execute(statement.encode())
            ((lsn,),) = connection.execute("select pg_current_wal_insert_lsn()::text").fetchall()
        self._wait_for("shop", lsn)
        gold = SQL("select count(*) from shop_public.customer where club = 'gold'")
        vouchers = SQL("select count(*) from shop_public.voucher")
        warehouse = self._target.dsn("warehouse")
        self._console.print(
            f"warehouse: {_count(warehouse, gold)} customers in club gold,"
            f" {_count(warehouse, vouchers)} vouchers\n"
        )

    def _wait_for(self, name: str, lsn: str) -> None:
        """Wait as any client of the warehouse can, until it shows the source at a position."""
        with psycopg.connect(self._target.dsn("warehouse"), autocommit=True) as connection:
            ((is_there,),) = connection.execute(
                "select replication.wait_for(%s, %s::pg_lsn, '5 minutes')", (name, lsn)
            ).fetchall()
        if is_there is False:
            raise PgreplError(f'source "{name}": the warehouse does not show {lsn} in time')

    def _compare(self, name: str, transaction_count: int) -> None:
        """Every purchase must be in the warehouse once."""
        bought = _count(self._sources[name].dsn(name), SQL("select count(*) from purchase"))
        copied = _count(
            self._target.dsn("warehouse"),
            SQL("select count(*) from {}").format(Identifier(f"{name}_public", "purchase")),
        )
        self._console.print(
            f"{name}: {bought} purchases, {transaction_count} of them during the demo;"
            f" {copied} in the warehouse"
        )
        if copied != bought:
            raise PgreplError(f'source "{name}": the warehouse has not every purchase once')

    def _start(self, output: TextIO, *arguments: str) -> subprocess.Popen[bytes]:
        self._console.print(f"$ pgrepl {' '.join(arguments)} &", style="cyan")
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "pgrepl.cli", *arguments, "--config", self._config],
            stdout=output,
            stderr=output,
        )

    def _psql(self, script: str, dsn: str | None = None) -> None:
        psql = self._target.binaries.program("psql")
        done = subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn or self._target.dsn()],
            input=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PgreplError(f"psql did not accept the script: {done.stderr.strip()}")


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop services as a service manager does, and insist that they end well."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    codes = [process.wait() for process in processes]
    if any(codes):
        raise PgreplError(f"services ended with {codes}")


def _count(dsn: str, query: SQL | Composed) -> int:
    with psycopg.connect(dsn) as connection:
        ((count,),) = connection.execute(query).fetchall()
    return int(count)
