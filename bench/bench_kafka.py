"""Receive topics: every envelope beside a consumer that only counts, and beside Spark's own way.

The consumer is confluent-kafka's in Python; it decodes nothing and keeps nothing. Spark's way is
Structured Streaming with the Kafka source and foreachBatch, which upserts what from_json reads, as
tutorials have it; its offsets are in a checkpoint of its own, so that a crash applies records
again. CPU seconds are those of each program, from its start to its end, and of the target.

    PYTHONPATH=. python bench/bench_kafka.py [--records 100000] [--no-spark]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import psycopg

from bench.measuring.cpu import cpu_seconds, own_cpu_seconds
from pgrepl.throwaway import Broker, Cluster
from tests.support.database import Database
from tests.support.streams.debezium_made import end, event
from tests.support.streams.kafka import Stream, Topics

KEY = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}]}
ROW = {"type": "struct", "fields": [*KEY["fields"], {"type": "string", "field": "name"}]}
ENVELOPE = {"type": "struct", "fields": [{**ROW, "field": "after", "optional": True}]}
KEYS, EACH = 10_000, 100

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
import sys
import psycopg
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json
bootstrap, topic, dsn, folder = sys.argv[1:]
SCHEMA = "payload struct<id int, name string>"
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars.packages", f"org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0")
    .config("spark.ui.enabled", "false")
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
    .selectExpr("v.payload.id as id", "v.payload.name as name", "offset")
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


def timed(
    target: Cluster, *command: str | Path, log: BinaryIO | None = None
) -> tuple[float, float, float]:
    """Run a program and return its wall time, its CPU seconds and those of the target."""
    before = own_cpu_seconds(), cpu_seconds(target)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=log)
    wall = time.monotonic() - began
    return wall, own_cpu_seconds() - before[0], cpu_seconds(target) - before[1]


def show(name: str, count: int, found: tuple[float, float, float]) -> None:
    wall, own, target = found
    print(f"| {name} | {count / wall:,.0f} | {wall:.1f} | {own:.1f} | {target:.1f} |", flush=True)


def measure(broker: Broker, cluster: Cluster, folder: Path, kind: str, count: int) -> str:
    """Send records of an envelope and receive them; return their topic."""
    topics = Topics(broker)
    topic, ends = topics.make("public.people", partitions=4), topics.make("transaction")
    topics.send(topic, records_of(kind, count))
    settings: dict[str, Any] = {"envelope": kind.partition(",")[0]}
    if "transactions" in kind:
        settings["transaction_topic"] = ends
        numbers = range(1, 1 + count // EACH)
        topics.send(
            ends, (({"id": xid}, end(xid, 1000 * (xid + 1), {"people": EACH})) for xid in numbers)
        )
    cluster.create_database("t_" + topics.prefix)
    target = Database(cluster, "t_" + topics.prefix)
    stream = Stream(
        target, folder, kind="kafka", bootstrap=broker.bootstrap, topics=[topic], **settings
    )
    program = (sys.executable, "-P", "-m", "pgrepl.cli")
    given = ("--config", str(stream.path))
    counted = (sys.executable, "-c", COUNT, broker.bootstrap, topic, str(count))
    show(f"count, {kind}", count, timed(cluster, *counted))
    received = timed(cluster, *program, "receive", "feed", "--once", *given)
    show(f"pgrepl receive, {kind}", count, received)
    show(f"pgrepl replay, {kind}", count, timed(cluster, *program, "replay", "--once", *given))
    assert target.rows("select count(*) from feed_public.people") == [(min(KEYS, count),)]
    return topic


def measure_spark(broker: Broker, cluster: Cluster, folder: Path, topic: str, count: int) -> None:
    """Read the same topic of upserts by Spark's own source."""
    cluster.create_database("spark")
    with psycopg.connect(cluster.dsn("spark")) as connection:
        connection.execute("create table spark_people (id int primary key, name text)")
    script = folder / "upserts.py"
    script.write_text(SPARK, encoding="utf-8")
    arguments = (broker.bootstrap, topic, cluster.dsn("spark"), str(folder / "checkpoint"))
    with (folder / "spark.log").open("wb") as log:
        try:
            found = timed(cluster, sys.executable, script, *arguments, log=log)
        except subprocess.CalledProcessError:
            text = (folder / "spark.log").read_text(errors="replace")
            print("\nSpark could not do it:\n", "\n".join(text.splitlines()[-5:]), sep="")
            return
    show("Spark Structured Streaming, upsert", count, found)
    with psycopg.connect(cluster.dsn("spark")) as connection:
        ((rows,),) = connection.execute("select count(*) from spark_people").fetchall()
    assert rows == min(KEYS, count)


def main() -> None:
    """Measure all of it, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    count = options.records
    print(f"{count} records in 4 partitions, load {os.getloadavg()[0]:.1f} before\n")
    print("| | records/s | wall s | CPU s | CPU s, target |\n|---|---|---|---|---|")
    with Broker() as broker, Cluster() as cluster, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = ("upsert", "debezium-upsert", "debezium", "debezium, transactions")
        topics = {kind: measure(broker, cluster, folder, kind, count) for kind in kinds}
        if not options.no_spark:
            measure_spark(broker, cluster, folder, topics["upsert"], count)


if __name__ == "__main__":
    main()
