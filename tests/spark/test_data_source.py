"""The spool as a data source of Spark's: what is there now, and what comes."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pgrepl.export.spark import PgreplDataSource
from tests.support.live import Live

pytestmark = pytest.mark.usefixtures("one_spark_session")


def test_spool_is_read_and_followed(source, target, tmp_path):
    live = Live(source, target, tmp_path, "wal2json").begin(
        "create table orders (id int primary key, note text)",
        "create table other (id int primary key)",
    )
    live.follow()
    spark = SparkSession.getActiveSession()
    assert spark is not None
    spark.dataSource.register(PgreplDataSource)
    options = {
        "config": str(tmp_path / "pgrepl.toml"),
        "source": "shop",
        "tables": "app.orders",
        "consumer": "spark",
    }
    stream = spark.readStream.format("pgrepl").options(**options).load()

    def follow():
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    follow()
    live.source.execute("insert into app.orders values (1, 'a'), (2, null)")
    live.source.execute("insert into app.other values (1)")
    live.source.execute("update app.orders set note = 'b' where id = 1")
    # Replay passes, and the spool is kept for the stream.
    live.follow()
    now = spark.read.format("pgrepl").options(**options).load().orderBy("commit_lsn", "op")
    assert [(row.op, row.table_name, row.after) for row in now.collect()] == [
        ("c", "orders", {"id": "1", "note": "a"}),
        ("c", "orders", {"id": "2", "note": None}),
        ("u", "orders", {"id": "1", "note": "b"}),
    ]
    follow()
    live.source.execute("delete from app.orders where id = 2")
    live.follow()
    follow()
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("seq", "op").collect()
    assert [row.op for row in found] == ["c", "c", "u", "d"]
    assert found[-1].before == {"id": "2"}
    # Spark told of all but the last batch; what it told of is not kept.
    live.follow()
    assert live.target.value("select count(distinct seq) from replication.raw_messages") <= 2
