"""Files of an export: whole or not there, one structure in a file of Parquet."""

from __future__ import annotations

import math

from pyarrow import parquet

from pgrepl.decoding.row_change import RowChange
from pgrepl.export.envelopes.debezium import DebeziumEnvelope, Moment
from pgrepl.export.sinks.file_formats import JsonLinesFormat, ParquetFormat
from pgrepl.export.sinks.files import FileSink
from pgrepl.export.tables import Column, ExportedTable

KINDS = ["integer", "real", "bytea", "numeric", "integer[]", "boolean", "timestamp with time zone"]
TEXTS = ["1", "NaN", "\\x00ff", "1.10", "{1,NULL}", "t", "2024-02-29 12:34:56+00"]
DAY_US = 86_400_000_000


def table(name, *kinds):
    columns = tuple(Column(f"c{n}", kind, False) for n, kind in enumerate(kinds))
    return ExportedTable("public", name, columns, ("c0",))


def records(envelope, own, *texts, day=0):
    moment = Moment(7, 1000, 900, day * DAY_US)
    envelope.describe(own)
    row = {column.name: text for column, text in zip(own.columns, texts, strict=True)}
    return list(envelope.change(RowChange(b"I", own.name, row), moment))


def test_parquet_has_the_types_of_the_schemas(tmp_path):
    envelope = DebeziumEnvelope("srv", "shop", lambda: 0, is_avro=True)
    list(envelope.begin(Moment(7, 1000, 900, 0)))
    sink = FileSink(tmp_path / "out", "files", ParquetFormat(), is_new=True)
    wide, narrow = table("orders", *KINDS), table("orders", "integer", "text")
    # The structure changes in the middle of a batch, and a day ends.
    for own, texts, day in (
        (wide, TEXTS, 0),
        (narrow, ("2", "x"), 0),
        (narrow, ("3", "y"), 1),
    ):
        for record in records(envelope, own, *texts, day=day):
            sink.write(record)
    assert not sink.is_empty
    prepared = sink.prepare(4)
    # Nothing is there before it is committed, also to another run that has to do it.
    assert list((tmp_path / "out").glob("[!.]*")) == []
    again = FileSink(tmp_path / "out", "files", ParquetFormat(), is_new=False)
    assert again.recover({"sink": prepared}, 3)
    found = sorted(path.relative_to(tmp_path / "out") for path in tmp_path.rglob("*.parquet"))
    assert [path.as_posix() for path in found] == [
        "public.orders/day=1970-01-01/000000000004.parquet",
        "public.orders/day=1970-01-01/000000000004_000001.parquet",
        "public.orders/day=1970-01-02/000000000004.parquet",
    ]
    (row,) = parquet.ParquetFile(tmp_path / "out" / found[0]).read().to_pylist()
    assert row["key"] == {"c0": 1}
    after = row["value"]["after"]
    assert math.isnan(after.pop("c1"))
    assert after == {
        "c0": 1,
        "c2": b"\x00\xff",
        "c3": "1.10",
        "c4": [1, None],
        "c5": True,
        "c6": "2024-02-29T12:34:56Z",
    }
    (row,) = parquet.ParquetFile(tmp_path / "out" / found[2]).read().to_pylist()
    assert row["value"]["after"] == {"c0": 3, "c1": "y"}


def test_order_of_names_is_that_of_what_was_written(tmp_path):
    """A structure that comes back, a clock that goes back, and another run after midnight."""
    envelope = DebeziumEnvelope("srv", "shop", lambda: 0, is_avro=True)
    list(envelope.begin(Moment(7, 1000, 900, 0)))
    wide, narrow = table("orders", "integer", "text"), table("orders", "integer")
    for batch, is_new in ((1, True), (2, False)):
        sink = FileSink(tmp_path, "files", ParquetFormat(), is_new=is_new)
        for number, day in ((0, 1), (1, 1), (2, 0), (3, 1)):
            own = wide if number % 2 else narrow
            texts = (str(10 * batch + number), "x")[: len(own.columns)]
            for record in records(envelope, own, *texts, day=day):
                sink.write(record)
        sink.prepare(batch)
        sink.commit()
    found = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet"))
    values = [
        row["value"]["after"]["c0"]
        for path in found
        for row in parquet.ParquetFile(tmp_path / path).read().to_pylist()
    ]
    assert values == [10, 11, 12, 13, 20, 21, 22, 23]


def test_what_was_not_prepared_is_removed(tmp_path):
    envelope = DebeziumEnvelope("srv", "shop", lambda: 0)
    lines = JsonLinesFormat(has_schemas=False)
    sink = FileSink(tmp_path, "files", lines, is_new=True)
    own = table("a/../b.c", "integer")
    for record in records(envelope, own, "1"):
        sink.write(record)
    sink.close()
    again = FileSink(tmp_path, "files", lines, is_new=True)
    assert not again.recover(None, 0)
    assert list((tmp_path / ".files").iterdir()) == []
    for record in records(envelope, own, "1"):
        again.write(record)
    again.prepare(1)
    again.commit()
    # No name leads out of the folder.
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.relative_to(tmp_path).parts[0] == "public.a%2F%2E%2E%2Fb%2Ec"
