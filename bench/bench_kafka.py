"""Receive topics: every envelope beside a consumer that only counts, and beside Spark's own way.

The consumer is confluent-kafka's in Python; it decodes nothing and keeps nothing. Spark's way is
Structured Streaming with the Kafka source and foreachBatch, which upserts what from_json reads, as
tutorials have it; its offsets are in a checkpoint of its own, so that a crash applies records
again. CPU seconds are those of each program with all that it starts, from its start to its end, and
of the target. Writes docs/benchmarks/kafka.md, and kafka.json beside it.

    PYTHONPATH=. python bench/bench_kafka.py [--records 100000] [--rounds 1] [--no-spark]
        [--spark-python PATH] [--docs docs/benchmarks]

Spark fetches its Kafka source as it starts. Of a version of which the repository has none, give the
Python of another one, with pyspark and psycopg.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import psycopg

from bench.measuring.cpu import cpu_seconds, own_cpu_seconds
from bench.reporting.kafka_report import Measured, write_report
from pgrepl.throwaway import Broker, Cluster
from tests.support.database import Database
from tests.support.streams.debezium_made import end, event
from tests.support.streams.kafka import Stream, Topics

KEY = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}]}
ROW = {"type": "struct", "fields": [*KEY["fields"], {"type": "string", "field": "name"}]}
ENVELOPE = {"type": "struct", "fields": [{**ROW, "field": "after", "optional": True}]}
KEYS, EACH = 10_000, 100

Report = Callable[[Sequence[Measured]], None]

COUNT = """
import sys
from confluent_kafka import Consumer, TopicPartition
bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count"})
consumer.assign([TopicPartition(topic, number, 0) for number in range(4)])
seen = 0
while seen < count:
    seen += len(consumer.consume(1000, timeout=1.0))
consumer.close()
"""

SPARK = """
import os
import sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import psycopg
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
bootstrap, topic, dsn, folder, kind = sys.argv[1:]
row = "struct<id int, name string>"
SCHEMA = f"payload {row}" if kind == "upsert" else f"payload struct<after {row}>"
own = "v.payload" if kind == "upsert" else "v.payload.after"
spark = (
    SparkSession.builder.master("local[2]")
    .config(
        "spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    )
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
def put(rows):
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "insert into spark_people values (%s, %s)"
            " on conflict (id) do update set name = excluded.name",
            [(row.id, row.name) for row in rows],
        )
def batch(frame, number):
    # The last of each key: ON CONFLICT takes a row once.
    frame.selectExpr("id", "struct(offset, name) as own").groupBy("id").agg({"own": "max"}) \\
        .selectExpr("id", "`max(own)`.name as name").foreachPartition(put)
read = (
    spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    .option("subscribe", topic).option("startingOffsets", "earliest").load()
    .select(from_json(col("value").cast("string"), SCHEMA).alias("v"), "offset")
    .selectExpr(f"{own}.id as id", f"{own}.name as name", "offset")
)
query = read.writeStream.foreachBatch(batch).option("checkpointLocation", folder) \\
    .trigger(availableNow=True).start()
query.awaitTermination()
"""


def records_of(kind: str, count: int) -> Iterator[tuple[Any, Any]]:
    """Return records of an envelope, in transactions of a hundred."""
    for number in range(count):
        row = {"id": number % KEYS, "name": f"name of {number}"}
        key = {"schema": KEY, "payload": {"id": row["id"]}}
        if kind == "upsert":
            yield key, {"schema": ROW, "payload": row}
            continue
        xid = 1 + number // EACH
        own = event(
            "c" if number < KEYS else "u",
            table="people",
            after=row,
            xid=xid,
            last_commit=1000 * xid,
            lsn=1000 * xid + number % EACH,
            order=1 + number % EACH,
        )
        yield key, {"schema": ENVELOPE, "payload": own}


def children() -> set[int]:
    """Return the processes that end into our hands."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        found.update(map(int, path.read_text(encoding="ascii").split()))
    return found


class Bench:
    """Servers, and what was measured with them."""

    def __init__(
        self, broker: Broker, cluster: Cluster, folder: Path, count: int, report: Report
    ) -> None:
        self._report = report
        self.broker = broker
        self.cluster = cluster
        self.folder = folder
        self.count = count
        self.found: list[Measured] = []
        # What a program starts and does not wait for, as Spark's JVM, counts too.
        set_subreaper = 36
        ctypes.CDLL(None).prctl(set_subreaper, 1)

    def run(
        self, what: str, envelope: str, *command: str | Path, log: BinaryIO | int | None = None
    ) -> None:
        """Run a program, and keep its wall time, its CPU seconds and those of the target."""
        others = children()
        before = own_cpu_seconds(), cpu_seconds(self.cluster)
        began = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=log)
        wall = time.monotonic() - began
        for pid in children() - others:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        own = own_cpu_seconds() - before[0]
        target = cpu_seconds(self.cluster) - before[1]
        self.found.append(Measured(what, envelope, self.count, wall, own, target))
        print(self.found[-1], flush=True)
        self._report(self.found)


def measure(bench: Bench, kind: str) -> str:
    """Send records of an envelope and receive them; return their topic."""
    topics, count = Topics(bench.broker), bench.count
    topic, ends = topics.make("public.people", partitions=4), topics.make("transaction")
    topics.send(topic, records_of(kind, count))
    settings: dict[str, Any] = {"envelope": kind.partition(",")[0]}
    if "transactions" in kind:
        settings["transaction_topic"] = ends
        numbers = range(1, 1 + count // EACH)
        topics.send(
            ends, (({"id": xid}, end(xid, 1000 * (xid + 1), {"people": EACH})) for xid in numbers)
        )
    bench.cluster.create_database("t_" + topics.prefix)
    target = Database(bench.cluster, "t_" + topics.prefix)
    stream = Stream(
        target,
        bench.folder,
        kind="kafka",
        bootstrap=bench.broker.bootstrap,
        topics=[topic],
        **settings,
    )
    program = (sys.executable, "-P", "-m", "pgrepl.cli")
    given = ("--config", str(stream.path))
    counted = (sys.executable, "-c", COUNT, bench.broker.bootstrap, topic, str(count))
    bench.run("confluent-kafka, counts only", kind, *counted)
    bench.run("pgrepl receive", kind, *program, "receive", "feed", "--once", *given)
    bench.run("pgrepl replay", kind, *program, "replay", "--once", *given)
    assert target.rows("select count(*) from feed_public.people") == [(min(KEYS, count),)]
    return topic


def measure_spark(bench: Bench, kind: str, topic: str, python: str) -> bool:
    """Read the same topic by Spark's own source; False: this Spark could not."""
    name = f"spark_{topic.partition('.')[0]}"
    bench.cluster.create_database(name)
    dsn = bench.cluster.dsn(name)
    with psycopg.connect(dsn) as connection:
        connection.execute("create table spark_people (id int primary key, name text)")
    script = bench.folder / "upserts.py"
    script.write_text(SPARK, encoding="utf-8")
    arguments = (bench.broker.bootstrap, topic, dsn, str(bench.folder / name), kind)
    with (bench.folder / "spark.log").open("wb") as log:
        try:
            bench.run("Spark Structured Streaming", kind, python, script, *arguments, log=log)
        except subprocess.CalledProcessError:
            text = (bench.folder / "spark.log").read_text(errors="replace")
            print("\nSpark could not do it:\n", "\n".join(text.splitlines()[-40:]), sep="")
            return False
    with psycopg.connect(dsn) as connection:
        ((rows,),) = connection.execute("select count(*) from spark_people").fetchall()
    assert rows == min(KEYS, bench.count)
    return True


def spark_version(python: str) -> str:
    """Return the version of Spark that a Python has."""
    asked = "import pyspark; print(pyspark.__version__)"
    return subprocess.run(
        [python, "-c", asked], check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> None:
    """Measure all of it, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--spark-python", default=sys.executable)
    parser.add_argument("--docs", type=Path, default=Path("docs/benchmarks"))
    options = parser.parse_args()
    load, at = os.getloadavg()[0], datetime.now(UTC)
    about = f"{at:%Y-%m-%d}, load {load:.1f} before, {os.cpu_count()} CPUs"
    if not options.no_spark:
        about += f", Spark {spark_version(options.spark_python)} for its own way"
    with Broker() as broker, Cluster() as cluster, tempfile.TemporaryDirectory() as name:
        report = partial(write_report, options.docs, about)
        bench = Bench(broker, cluster, Path(name), options.records, report)
        for _ in range(options.rounds):
            has_spark = not options.no_spark
            for kind in ("upsert", "debezium-upsert", "debezium", "debezium, transactions"):
                topic = measure(bench, kind)
                if has_spark and kind in {"upsert", "debezium-upsert"}:
                    has_spark = measure_spark(bench, kind, topic, options.spark_python)


if __name__ == "__main__":
    main()
