"""A database, a real Debezium that is killed again and again, and our copy of what it sent."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from pgrepl.throwaway import Broker
from tests.support.database import Database
from tests.support.streams.debezium_program import run_debezium
from tests.support.streams.kafka import Stream, Topics
from tests.support.waiting import wait_until

TABLES = {
    "customers": "id int primary key, name text, big text",
    "orders": "id bigint primary key, cid int, amt numeric(10,2), at timestamptz default now()",
    "ledger": "id bigint primary key, amt numeric(10,2)",
    "nopk": "a int, b text",
    "marker": "id int primary key",
}
_BIG = "(select string_agg(md5(g::text), '') from generate_series(1, 200) g)"


class LiveDebezium:
    """One source database, and the topics that Debezium writes for it."""

    def __init__(self, source: Database, topics: Topics, folder: Path, seed: int) -> None:
        self.source = source
        self.topics = topics
        self.folder = folder
        self._random = random.Random(seed)
        self._round = 0
        self._id = 100
        source.execute("drop role if exists dbz")
        source.execute("create role dbz superuser replication login password 'dbz'")
        for name, columns in TABLES.items():
            source.execute(f"create table {name} ({columns})")
            topics.make(f"public.{name}", partitions=1 if name == "marker" else 2)
        source.execute("alter table nopk replica identity full")
        source.execute(
            f"insert into customers select g, 'c' || g, {_BIG} from generate_series(1, 9) g"
        )
        topics.make("transaction")

    #: What is 0 after every transaction: two tables, of several partitions each.
    total = (
        "select coalesce(sum(amt::numeric), 0) from"
        " (select amt from feed_public.orders union all select amt from feed_public.ledger) t"
    )

    @property
    def broker(self) -> Broker:
        return self.topics.broker

    def settings(self) -> dict[str, Any]:
        return {
            "topics": [f"^{self.topics.prefix}\\.public\\..*"],
            "transaction_topic": f"{self.topics.prefix}.transaction",
            "envelope": "debezium",
        }

    def write(self, transactions: int) -> None:
        """Commit transactions that a reader of the target must see whole."""
        choose = self._random.choice
        for _ in range(transactions):
            self._id += 1
            number, other = self._id, self._random.randrange(1, 10)
            statements = [
                f"insert into orders values ({number}, {other}, 5), ({-number}, {other}, 2)",
                f"insert into ledger values ({number}, -7)",
                f"insert into nopk values ({other}, 'x'), ({other}, 'x')",
            ]
            cancelled = (
                f"delete from orders where abs(id) = {number - 3};"
                f" delete from ledger where id = {number - 3}"
            )
            to = 1_000_000 + 10 * number + other
            moved = f"update customers set id = {to} where id = {other}"
            again = (
                f"insert into customers values ({other}, 'again', {_BIG}) on conflict do nothing"
            )
            many = "select 2000 + {} + g, 'copy', 'b' from generate_series(1, 9) g"
            statements.append(
                choose(
                    [
                        f"update customers set name = 'n{number}' where id = {other}",
                        f"{moved}; {again}",
                        f"delete from customers where id > 1000 and id % 10 = {other}",
                        cancelled,
                        f"update nopk set b = 'y' where a = {other} and b = 'x'",
                        f"delete from nopk where a = {other} and b = 'y'",
                        "insert into customers " + many.format(10 * number),
                    ]
                )
            )
            self.source.execute("begin; " + "; ".join(statements) + "; commit")

    def run(self, die_after: int | None = None, transactions: int = 0) -> None:
        """Let Debezium send all that is there, or be killed after a number of records.

        Transactions are committed while it streams: what was before is in its snapshot.
        """
        self._round += 1
        writing = threading.Thread(target=self._write_when_streaming, args=(transactions,))
        writing.start()
        code = run_debezium(
            self.folder,
            broker=self.broker,
            prefix=self.topics.prefix,
            port=self.source.cluster.port,
            dbname=self.source.name,
            until=self._round,
            die_after=die_after,
        )
        writing.join()
        log = (self.folder / "debezium.log").read_text(errors="replace")[-2000:]
        assert code == (0 if die_after is None else -9), log

    def _write_when_streaming(self, transactions: int) -> None:
        slot = f"dbz_{self.source.name}"
        query = f"select from pg_replication_slots where slot_name = '{slot}' and active"
        if transactions:
            wait_until(lambda: self.source.rows(query), timeout_s=120)
            self.write(transactions)
        self.source.execute(f"insert into marker values ({self._round})")

    def assert_equal(self, stream: Stream) -> None:
        for name in TABLES:
            query = "select t::text from {}.{} t order by 1"
            ours, theirs = (query.format(schema, name) for schema in ("feed_public", "public"))
            assert stream.rows(ours) == self.source.rows(theirs), name
        assert stream.rows("select reason from replication.parked_table") == []
        parked = "select topic, partition, record_offset, reason from replication.parked_record"
        assert stream.rows(parked) == [], stream.rows(parked)
