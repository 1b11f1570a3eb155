"""Every type over a broker, as Avro and as JSON, and in Parquet files: out, and in again, equal."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgrepl.export.run import Exporter
from pgrepl.export.sinks.destinations import FilesDestination, KafkaDestination, make_plan
from pgrepl.export.sinks.kafka_address import KafkaAddress
from tests.support.streams.kafka import Stream, Topics
from tests.support.streams.registry import Registry

#: Column types, and values of them that are easily lost.
VALUES = {
    "smallint": ["-32768", "32767"],
    "bigint": ["-9223372036854775808", "9007199254740993"],
    "numeric": ["NaN", "-Infinity", "1.10", "123456789012345678901234567890.0001"],
    "numeric(12,2)": ["0.10", "-9999999999.99"],
    "real": ["NaN", "Infinity", "1e-45", "3.4028235e+38"],
    "double precision": ["-Infinity", "-0", "0.1", "5e-324"],
    "boolean": ["t", "f"],
    "text": ["", "  ", "ä€😀", '"\\', "__debezium", "line\nline\ttab"],
    "char(5)": ["a", "abcde"],
    "bytea": ["\\x", "\\x00ff5c"],
    "date": ["infinity", "0044-03-15 BC", "5874897-12-31", "1582-10-10"],
    "time": ["24:00:00", "00:00:00.000001"],
    "timetz": ["07:04:56.5+05:30"],
    "timestamp": ["-infinity", "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["infinity", "0044-03-15 12:00:00+00 BC", "2024-02-29 12:34:56.789123+02"],
    "interval": ["1 year 2 mons -3 days 04:05:06.5", "-00:00:00.000001"],
    "uuid": ["6f8f3c2e-0000-4000-8000-00000000abcd"],
    "jsonb": ['{"a": [1, 2.50, null]}', "null"],
    "json": ['{"a" :1, "a":2}'],
    "xml": ["<a>&amp;</a>"],
    "inet": ["10.0.0.1/8"],
    "bit(1)": ["1", "0"],
    "bit(11)": ["00000000001", "10000000000"],
    "varbit": ["", "0001", "101"],
    "point": ["(1.5,-2)"],
    "int4range": ["[1,5)", "empty"],
    "integer[]": ["{}", "{1,NULL,-3}"],
    "text[]": ['{NULL,"NULL","a,b",""}'],
    "double precision[]": ["{NaN,1.5,NULL}"],
    "numeric[]": ["{1.10,NaN}"],
    "timestamptz[]": ["{infinity,NULL}"],
    "money": ["$1,234.50"],
    "oid": ["0", "4294967295"],
    '"char"': ["a"],
    "name": ["n"],
    "varchar(4)": ["ab  "],
    "mood": ["sad", "ok"],
    "short": ["ab"],
    "hstore": ['"a"=>"1", "b"=>NULL'],
    "ltree": ["a.b"],
    "tsvector": ["'a':1A 'b'"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "tstzrange": ['["2024-02-29 10:00:00+00",)'],
    "int4multirange": ["{[1,3),[5,7)}", "{}"],
    "box": ["(2,2),(1,1)"],
    "path": ["((0,0),(1,1))"],
    "boolean[]": ["{t,f,NULL}"],
    "real[]": ["{NaN,1e-45}"],
    "date[]": ['{infinity,"0044-03-15 BC"}'],
    "time[]": ["{24:00:00}"],
    "timestamp[]": ['{-infinity,"0044-03-15 00:00:00 BC"}'],
    "interval[]": ['{"1 mon -1 days",-00:00:01}'],
    "uuid[]": ["{6f8f3c2e-0000-4000-8000-00000000abcd,NULL}"],
    "jsonb[]": ['{"{\\"a\\": 1.10}",NULL}'],
    "bytea[]": ['{"\\\\x00ff",NULL}'],
    "bit(3)[]": ["{101,001}"],
    "varbit[]": ["{0001,1}"],
    "point[]": ['{"(1.5,-2)"}'],
    "mood[]": ["{sad,NULL}"],
    "box[]": ["{(2,2),(1,1);(1,1),(0,0)}"],
}
COLUMNS = [f"c{number}" for number in range(len(VALUES))]
TYPES = "id int primary key, " + ", ".join(
    f"{name} {kind}" for name, kind in zip(COLUMNS, VALUES, strict=True)
)
TABLES = [
    "create type mood as enum ('sad', 'ok'); create domain short as varchar(4)",
    "create extension hstore; create extension ltree",
    f"create table typed ({TYPES})",
    (
        "create table bodies (a int, b text, body text, n int, primary key (a, b));"
        " alter table bodies alter body set storage external"
    ),
    "create table bag (x int, y text); alter table bag replica identity full",
]


def fill(database, first, last):
    """Insert rows of the first value of each type, of the second, and so on, and one of nulls."""
    for number in range(first, last):
        chosen = (values[number % len(values)] for values in VALUES.values())
        texts = ", ".join("'" + text.replace("'", "''") + "'" for text in chosen)
        database.execute(f"insert into app.typed values ({number}, {texts})")
    database.execute(f"insert into app.typed (id) values ({last})")


@pytest.mark.parametrize("file_format", ["avro", "json"])
def test_values_come_back_through_a_broker(live_of, broker, tmp_path, make_migrated, file_format):
    prefix = Topics(broker).prefix
    is_avro = file_format == "avro"
    with Registry() as registry:
        assert_round_trip(
            live_of("pgoutput", *TABLES),
            KafkaDestination(
                KafkaAddress(broker.bootstrap, prefix, 2), registry.address if is_avro else None
            ),
            Stream(
                make_migrated(),
                folder_of(tmp_path),
                kind="kafka",
                bootstrap=broker.bootstrap,
                topics=[f"^{prefix}\\.app\\..*"],
                transaction_topic=f"{prefix}.transaction",
                envelope="debezium",
                format=file_format,
                **({"registry": registry.address} if is_avro else {}),
            ),
            has_schemas=not is_avro,
        )


def test_values_come_back_through_parquet_files(live_of, tmp_path, make_migrated):
    out = tmp_path / "out"
    assert_round_trip(
        live_of("pgoutput", *TABLES),
        FilesDestination(out, timedelta(0), "parquet"),
        Stream(
            make_migrated(), folder_of(tmp_path), kind="files", path=str(out), envelope="debezium"
        ),
    )


def folder_of(tmp_path):
    """Return a folder for the configuration of the second target."""
    folder = tmp_path / "second"
    folder.mkdir()
    return folder


def assert_round_trip(live, destination, stream, *, has_schemas=False):
    """Hand changes on, three times, and find the same rows on both sides."""
    fill(live.source, 0, 3)
    live.source.execute(
        "insert into app.bodies select g, 'b', repeat(md5(g::text), 80), g"
        " from generate_series(1, 4) g; insert into app.bag values (1, 'x'), (1, 'x')"
    )
    plan = make_plan(
        "shop",
        destination,
        tables=("app.*",),
        envelope="debezium",
        consumer=None,
        has_snapshot=True,
        has_schemas=has_schemas,
        keep=timedelta(days=1),
    )

    def hand_on():
        live.follow()
        Exporter(live.config, live.config.sources["shop"], plan).run(once=True)
        stream.bring()
        assert stream.rows("select reason from replication.parked_record") == []
        assert stream.rows("select reason from replication.parked_table") == []

    hand_on()
    fill(live.source, 4, 9)
    live.source.execute("update app.typed set id = id + 100 where id < 3")
    live.source.execute("update app.bodies set n = n + 1 where a < 3")
    live.source.execute("update app.bodies set a = a + 10 where a = 3")
    live.source.execute("delete from app.bodies where a = 4")
    live.source.execute("delete from app.bag where ctid = (select min(ctid) from app.bag)")
    hand_on()
    live.source.execute("update app.bag set y = 'z'")
    live.source.execute("insert into app.bodies values (9, 'c', 'before', 1)")
    live.source.execute("truncate app.bodies")
    live.source.execute("insert into app.bodies values (1, 'c', 'after', 1)")
    hand_on()
    for name in ("typed", "bodies", "bag"):
        # Types that the records do not name are text there, and one bit is true or false.
        here, there = (
            sorted(
                [{"t": "1", "f": "0", None: "null"}.get(text, text) for text in row]
                for row in rows_of(database, schema, name)
            )
            for database, schema in ((live.source, "app"), (stream.target, "feed_app"))
        )
        assert here == there, name


def rows_of(database, schema, table):
    """Return a table's rows, all columns as texts."""
    columns = database.rows(
        f"select attname from pg_attribute where attrelid = '{schema}.{table}'::regclass"
        " and attnum > 0 order by attname"
    )
    # As they are printed; a cast to text would strip the blanks of char.
    texts = ", ".join(
        f"case when {name} is not null then concat({name}) end" for (name,) in columns
    )
    return database.rows(f"select {texts} from {schema}.{table}")
