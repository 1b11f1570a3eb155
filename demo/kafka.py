"""PostgreSQL to Debezium to Kafka to pgrepl, beside the direct way: both bring the same rows."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from pgrepl.demo.console import DemoConsole, fill
from pgrepl.demo.workload import Workload
from pgrepl.errors import PgreplError
from pgrepl.throwaway import Broker, Cluster
from pgrepl.throwaway.debezium import Debezium, check_debezium

__all__ = ["run_kafka_demo"]

_TABLES = ("customer", "purchase", "page_view")
_DEBEZIUM_S = 180.0
_TRANSACTIONS = "dbz.transaction"
_PASSWORD = "demo"  # noqa: S105  of a server that lives for a minute


def run_kafka_demo() -> None:
    """Bring one live source into one target by two ways.

    Raises
    ------
    PgreplError
        when something is missing on this machine, or a step does not end as it should.

    """
    check_debezium()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgrepl-demo-")))
        broker = stack.enter_context(Broker())
        source = stack.enter_context(Cluster())
        target = stack.enter_context(Cluster())
        _KafkaDemo(folder, broker, source, target).run()


class _KafkaDemo(DemoConsole):
    def __init__(self, folder: Path, broker: Broker, source: Cluster, target: Cluster) -> None:
        super().__init__(folder)
        self._folder = folder
        self._broker = broker
        self._source = source
        self._target = target

    def run(self) -> None:
        self._prepare()
        debezium = self._debezium()
        with ExitStack() as stack:
            self._title("The shop opens; Debezium copies it, and writes every change to Kafka")
            shop = stack.enter_context(Workload(self._source.dsn("shop")))
            process = debezium.start(until=1)
            stack.callback(process.wait)
            stack.callback(process.kill)
            self._title("The direct way copies it at one exact LSN meanwhile")
            self._pgrepl("basebackup", "shop")
            self._wait_for_debezium(debezium)
        self._title("The shop has closed; a last row tells Debezium to end")
        process = debezium.start(until=1)
        self._ask("insert into marker values (1)")
        if process.wait(timeout=_DEBEZIUM_S) != 0:
            raise PgreplError("Debezium did not end well", hint=_tail(debezium.log))
        self._title("Both ways into one target")
        for name in ("shop", "feed"):
            self._pgrepl("receive", name, "--once")
        self._pgrepl("replay", "--once")
        self._pgrepl("parked", "records", "feed")
        self._pgrepl("status")
        self._title("Row for row, both ways brought the same")
        for table in _TABLES:
            self._compare(table)
        self._console.print(f"{shop.count} transactions were committed meanwhile")
        self._title("Done; servers, data and configuration are removed")

    def _prepare(self) -> None:
        self._title("A throwaway source, a target, and a broker of Apache Kafka")
        fill(self._source, "shop", "source")
        fill(self._target, "warehouse", "target")
        for statement in (
            "create table marker (id integer primary key)",
            "alter table page_view replica identity full",
            f"create role dbz superuser login password '{_PASSWORD}'",
        ):
            self._ask(statement)
        lines = [
            "[target]",
            f'dsn = "{self._target.dsn("warehouse")}"',
            "",
            "[sources.shop]",
            f'dsn = "{self._source.dsn("shop")}"',
            "",
            "[sources.feed]",
            'kind = "kafka"',
            f'bootstrap = "{self._broker.bootstrap}"',
            'topics = ["^dbz\\\\.public\\\\..*"]',
            f'transaction_topic = "{_TRANSACTIONS}"',
            'envelope = "debezium"',
        ]
        self._config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._console.print(self._config.read_text(encoding="utf-8"), markup=False)

    def _debezium(self) -> Debezium:
        return Debezium(
            broker=self._broker,
            folder=self._folder,
            prefix="dbz",
            host="127.0.0.1",
            port=self._source.port,
            dbname="shop",
            user="dbz",
            password=_PASSWORD,
            settings={},
        )

    def _ask(self, statement: str) -> None:
        """Run a statement on the source."""
        with psycopg.connect(self._source.dsn("shop"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _wait_for_debezium(self, debezium: Debezium) -> None:
        """Wait until it streams, and would go on streaming; it is killed then, whatever it does.

        Killed before it has noted that, it would copy all tables again.
        """
        # librdkafka is an optional dependency.
        admin = import_module("confluent_kafka.admin").AdminClient(
            {"bootstrap.servers": self._broker.bootstrap}
        )
        until = time.monotonic() + _DEBEZIUM_S
        while (
            _TRANSACTIONS not in admin.list_topics(timeout=_DEBEZIUM_S).topics
            or not debezium.is_streaming
        ):
            if time.monotonic() > until:
                raise PgreplError("Debezium does not stream", hint=_tail(debezium.log))
            time.sleep(0.2)
        time.sleep(1)
        self._title("Debezium is killed in the middle of it, and started again")

    def _compare(self, table: str) -> None:
        rows = SQL("select md5(string_agg(t::text, '|' order by t::text)), count(*) from {} t")
        found = []
        with psycopg.connect(self._target.dsn("warehouse")) as connection:
            for schema in ("shop_public", "feed_public"):
                found += connection.execute(rows.format(Identifier(schema, table))).fetchall()
        self._console.print(f"{table}: {found[0][1]} rows directly, {found[1][1]} through Kafka")
        if found[0] != found[1]:
            raise PgreplError(f"table {table} differs: the two ways did not bring the same")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
