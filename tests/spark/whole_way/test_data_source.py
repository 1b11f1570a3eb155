"""The spool as a data source of Spark's: what is there now, and what comes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pgrepl.export.spark import PgreplDataSource
from tests.support.running.live import Live

pytestmark = pytest.mark.usefixtures("one_spark_session")

SECRET = "the-password-of-the-target"


class Stream:
    """A stream of the tables of ``live`` into a folder of Parquet files."""

    def __init__(self, spark, live, tmp_path, **options):
        self.spark = spark
        self.folder = tmp_path
        self.options = {
            "config": str(live.config_path),
            "source": "shop",
            "tables": "app.orders",
            "consumer": "spark",
            **options,
        }
        self.checkpoint = "checkpoint"

    def load(self):
        return self.spark.readStream.format("pgrepl").options(**self.options).load()

    def start(self, trigger, sink=None):
        """Start; a sink that is a function is called with each batch."""
        writer = self.load().writeStream.option(
            "checkpointLocation", str(self.folder / self.checkpoint)
        )
        if sink is None:
            writer = writer.format("parquet").option("path", str(self.folder / "out"))
        else:
            writer = writer.foreachBatch(sink)
        return writer.trigger(**trigger).start()

    def follow(self, sink=None):
        query = self.start({"availableNow": True}, sink)
        query.awaitTermination()
        return query

    def found(self):
        rows = self.spark.read.parquet(str(self.folder / "out")).orderBy("seq", "position")
        return [(row.op, (row.after or row.before or {}).get("id")) for row in rows.collect()]


@pytest.fixture
def spark():
    session = SparkSession.getActiveSession()
    assert session is not None
    session.dataSource.register(PgreplDataSource)
    return session


@pytest.fixture
def live(source, target, tmp_path):
    live = Live(source, target, tmp_path, "pgoutput").begin(
        "create table orders (id int primary key, total numeric(12,2), note text)",
        "create table other (id int primary key)",
    )
    live.follow()
    return live


def add_secret(live):
    """Give the target a password, which its server does not ask for."""
    config = live.config_path
    text = re.sub(r'(\[target\]\ndsn = "[^"]*)"', rf'\1 password={SECRET}"', config.read_text())
    assert SECRET in text
    config.write_text(text)


def assert_no_secret_is_shown(stream, query):
    files = [p for p in stream.folder.rglob("checkpoint/**/*") if p.is_file()]
    assert files
    shown = [
        query._jsq.explainInternal(True),
        str(query.recentProgress),
        stream.load()._jdf.queryExecution().toString(),
        *(path.read_text(errors="replace") for path in files),
    ]
    assert "pgrepl" in shown[2]
    assert all(shown)
    assert not [text for text in shown if SECRET in text]


def test_stream_goes_on_where_it_was_and_the_spool_is_kept_for_it(spark, live, tmp_path):
    add_secret(live)
    stream = Stream(spark, live, tmp_path, maxChangesPerTrigger="3")
    stream.follow()
    live.source.execute("insert into app.orders values (1, 1.50, 'a'), (2, 'NaN', null)")
    live.source.execute("insert into app.other values (1)")
    live.receive()
    live.source.execute("update app.orders set note = 'b' where id = 1")
    # Replay passes, and the spool is kept for the stream.
    live.follow()
    spool = spark.read.format("pgrepl").options(config=stream.options["config"], source="shop")
    rows = spool.load().orderBy("seq", "position").collect()
    assert [(row.op, row.table_name, row.after) for row in rows] == [
        ("c", "orders", {"id": "1", "total": "1.50", "note": "a"}),
        ("c", "orders", {"id": "2", "total": "NaN", "note": None}),
        ("c", "other", {"id": "1"}),
        ("u", "orders", {"id": "1", "total": "1.50", "note": "b"}),
    ]
    assert len({(row.seq, row.position) for row in rows}) == len(rows)
    # A batch ends before it has more changes than it may.
    batches = [p["numInputRows"] for p in stream.follow().recentProgress if p["numInputRows"]]
    assert batches == [2, 1]
    stream.follow()
    assert stream.found() == [("c", "1"), ("c", "2"), ("u", "1")]
    live.source.execute("delete from app.orders where id = 2")
    live.source.execute("truncate app.orders")
    live.follow()
    assert_no_secret_is_shown(stream, stream.follow())
    assert stream.found() == [("c", "1"), ("c", "2"), ("u", "1"), ("d", "2"), ("t", None)]
    # What Spark told of is not kept; it tells of all but the last batch.
    live.follow()
    assert live.target.value("select count(distinct seq) from replication.raw_messages") <= 2
    # An empty spool has no rows; what was read before and is removed is no empty spool.
    before = spool.load()
    assert before.count() > 0
    live.target.execute("delete from replication.consumer")
    live.follow()
    assert spool.load().count() == 0
    with pytest.raises(PySparkException, match="is not in the spool any more"):
        before.count()


@pytest.mark.soak
def test_batch_that_failed_comes_again_whole_from_the_checkpoint(spark, live, tmp_path):
    stream = Stream(spark, live, tmp_path, changesPerTask="1")
    seen = []

    def fail(_, number):
        assert number < 0, "the sink fails"

    def collect(batch, _):
        ids = sorted(row.after["id"] for row in batch.collect())
        # A stream begins with a batch of nothing.
        if ids:
            seen.append((batch.rdd.getNumPartitions(), ids))

    stream.follow(collect)
    for number in range(3):
        live.source.execute(f"insert into app.orders values ({number}, 0, '')")
        live.receive()
    with pytest.raises(PySparkException):
        stream.follow(fail)
    assert seen == []
    live.replay()
    live.source.execute("insert into app.orders values (3, 0, '')")
    live.follow()
    stream.follow(collect)
    assert [ids for _, ids in seen] == [["0", "1", "2"], ["3"]]
    assert seen[0][0] == 3


@pytest.mark.soak
def test_only_the_checkpoint_of_a_consumer_goes_on_with_it(spark, live, tmp_path):
    stream = Stream(spark, live, tmp_path)
    for number in range(2):
        live.source.execute(f"insert into app.orders values ({number}, 0, '')")
        live.follow()
        stream.follow()
    stream.checkpoint = "another"
    with pytest.raises(PySparkException, match="is that of another checkpoint"):
        stream.follow()
    # One of the same name is another: the spool was not kept in between.
    stream.checkpoint = "checkpoint"
    live.target.execute("delete from replication.consumer")
    live.source.execute("insert into app.orders values (2, 0, '')")
    live.follow()
    other = Stream(spark, live, tmp_path / "other")
    other.follow()
    with pytest.raises(PySparkException, match="checkpoint is of another consumer"):
        stream.follow()
    live.source.execute("insert into app.orders values (3, 0, '')")
    live.follow()
    live.target.execute(
        "update replication.consumer set moved_at = '2020-01-01', keep = '1 second'"
    )
    live.follow()
    with pytest.raises(PySparkException, match="was let go at"):
        other.follow()


@pytest.mark.soak
def test_second_stream_of_a_consumer_is_refused_and_the_first_goes_on(spark, live, tmp_path):
    add_secret(live)
    stream = Stream(spark, live, tmp_path)
    query = stream.start({"processingTime": "0 seconds"})
    try:
        # It begins where replay is by then.
        query.processAllAvailable()
        live.source.execute("insert into app.orders values (1, 0, '')")
        live.follow()
        query.processAllAvailable()
        second = Stream(spark, live, tmp_path / "second")
        with pytest.raises(PySparkException, match="runs already"):
            second.follow()
        live.source.execute("insert into app.orders values (2, 0, '')")
        live.follow()
        query.processAllAvailable()
        assert_no_secret_is_shown(stream, query)
    finally:
        query.stop()
    assert stream.found() == [("c", "1"), ("c", "2")]


@pytest.mark.soak
def test_example_of_the_documentation_runs(spark, source, target, tmp_path):
    live = Live(source, target, tmp_path, "wal2json").begin(
        "create table orders (id int primary key, total numeric(12,2))"
    )
    live.follow()
    text = (Path(__file__).parents[3] / "docs" / "export.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    example = (
        example.replace("/etc/pgrepl/pgrepl.toml", str(live.config_path))
        .replace("/srv/", f"{tmp_path}/")
        .replace("public.orders", "app.orders")
    )
    code = compile(example, "docs/export.md", "exec")
    exec(code, {})
    live.source.execute("insert into app.orders values (1, 1.50), (2, 20)")
    live.follow()
    exec(code, {})
    live.source.execute("update app.orders set total = 21 where id = 2")
    live.follow()
    exec(code, {})
    rows = spark.read.parquet(str(tmp_path / "orders")).orderBy("seq", "position").collect()
    assert [(row.id, str(row.total)) for row in rows] == [(1, "1.50"), (2, "20.00"), (2, "21.00")]
