"""Real clusters for the whole run, fresh databases for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling

from pgrepl.config.dsn import Side
from pgrepl.config.model import SparkConfig
from pgrepl.doctor.plugin_probe import probe_plugin
from pgrepl.postgres.connect import connect
from pgrepl.replayer.spark_job import DAEMON, ShardJobs
from pgrepl.spark.background import SessionInBackground
from pgrepl.spark.session import build_session
from pgrepl.store.migrations import migrate
from pgrepl.throwaway import Broker, Cluster, ServerBinaries, find_binaries
from pgrepl.throwaway.broker import SecureListener
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.examples import limit_examples
from tests.support.machine.kept_sessions import hang_up, hang_up_all
from tests.support.machine.kept_workers import keep_workers
from tests.support.machine.order import needs_broker, place
from tests.support.machine.quick_initdb import copy_clusters
from tests.support.machine.quick_java import start_java_quickly
from tests.support.machine.tls import Authority
from tests.support.machine.versions import tested_versions
from tests.support.streams.kafka import BROKER_PASSWORD, BROKER_USER, KAFKA_JARS

# Where files are kept in memory, and how much room there has to be for a run.
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 6 << 30

limit_examples()

_SHARED = {
    # What a table is thought to hold changes when a test says so, not when a minute is over.
    "autovacuum": "off",
    # Sessions that call functions would load it each, an eighth of what they cost.
    "shared_preload_libraries": "plpgsql",
}


def pytest_configure() -> None:
    """Keep clusters in memory where there is room.

    Each database is some 300 files. To make and remove those took a fifth of the CPU on ext4,
    which looks for numbers of files that were not in use a moment ago.
    """
    if "TMPDIR" in os.environ or not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return
    if shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES:
        # For the programs that tests run, too.
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pg-bindir", type=Path, help="folder of the PostgreSQL server programs")
    parser.addoption(
        "--pg-old-bindir", type=Path, help="the same of an older version, which is upgraded from"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let processes that share the tests end together: first what takes long, last what is short.

    Within each of them the order stays random.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: place(item.path))


class _SharedBroker(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Gives the files whose tests need a broker to one process: each would start its own."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "broker" if needs_broker(self.config.rootpath / file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _SharedBroker | None:
    return _SharedBroker(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say what was tested, ahead of the failures: most depend on the server's version."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.testscollected:
        return  # a worker of xdist, or nothing ran
    binaries = find_binaries(session.config.getoption("--pg-bindir"))
    reporter.write_line(f"\ntested with {tested_versions(binaries)}")


@pytest.fixture(scope="session")
def binaries(request: pytest.FixtureRequest) -> ServerBinaries:
    return find_binaries(request.config.getoption("--pg-bindir"))


@pytest.fixture(scope="session")
def old_binaries(request: pytest.FixtureRequest, binaries: ServerBinaries) -> ServerBinaries:
    """Return what servers run on before they are upgraded; of this version if no other is given."""
    bindir = request.config.getoption("--pg-old-bindir")
    return binaries if bindir is None else find_binaries(bindir)


@pytest.fixture(scope="session", autouse=True)
def _copied_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run initdb once for all clusters of this process."""
    with copy_clusters(tmp_path_factory.mktemp("initdb")):
        yield


@pytest.fixture(scope="session")
def source_cluster(binaries: ServerBinaries) -> Iterator[Cluster]:
    settings = {**LOGICAL_DECODING, **_SHARED, "max_prepared_transactions": "5"}
    with Cluster(binaries=binaries, settings=settings) as cluster:
        _warm_up(cluster)
        yield cluster


@pytest.fixture(scope="session")
def has_text_numbers(source_cluster: Cluster) -> bool:
    """Whether wal2json is 2.6 or newer: numbers arrive as text, NaN and Infinity too."""
    with connect(Database(source_cluster, "postgres").endpoint(Side.SOURCE), "test") as connection:
        return bool(probe_plugin(connection).has_text_numbers)


@pytest.fixture(scope="session")
def target_cluster(binaries: ServerBinaries) -> Iterator[Cluster]:
    with Cluster(binaries=binaries, settings={**LOGICAL_DECODING, **_SHARED}) as cluster:
        _warm_up(cluster)
        yield cluster


def _warm_up(cluster: Cluster) -> None:
    """Have the server keep what sessions read of the catalogue; databases are copied with that."""
    Database(cluster, "template1").execute("select")
    hang_up(cluster)


@pytest.fixture(scope="session")
def broker_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return who signed the certificate of the broker's second listener."""
    authority = Authority(tmp_path_factory.mktemp("broker") / "authority")
    authority.begin()
    return authority


@pytest.fixture(scope="session")
def broker(broker_authority: Authority) -> Iterator[Broker]:
    """Return the Kafka broker that all tests of a process share: topics have names of their own."""
    folder = broker_authority.folder
    key, certificate, both = (folder / name for name in ("key", "crt", "server.pem"))
    broker_authority.sign(key, certificate, "IP:127.0.0.1")
    both.write_text(key.read_text() + certificate.read_text())
    secure = SecureListener(both, BROKER_USER, BROKER_PASSWORD)
    with Broker(jars=KAFKA_JARS, secure=secure) as broker:
        yield broker


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def make_database(_numbers: Iterator[int]) -> Iterator[Callable[..., Database]]:
    """Return a function that makes a database, from a template if asked; all are dropped again."""
    made: list[Database] = []

    def make(cluster: Cluster, *, prefix: str = "db", template: str = "template1") -> Database:
        database = Database(cluster, f"{prefix}_{next(_numbers)}")
        database.create(template)
        made.append(database)
        return database

    yield make
    for database in made:
        database.drop()


@pytest.fixture
def source(source_cluster: Cluster, make_database: Callable[..., Database]) -> Database:
    return make_database(source_cluster, prefix="source")


@pytest.fixture
def bare_target(target_cluster: Cluster, make_database: Callable[..., Database]) -> Database:
    """Return a target without anything in it."""
    return make_database(target_cluster, prefix="target")


@pytest.fixture(scope="session")
def _migrated(target_cluster: Cluster) -> str:
    database = Database(target_cluster, "migrated")
    target_cluster.create_database(database.name)
    endpoint = database.endpoint(Side.TARGET)
    with connect(endpoint, "test") as connection:
        migrate(connection, endpoint)
    return database.name


@pytest.fixture
def target(
    target_cluster: Cluster, make_database: Callable[..., Database], _migrated: str
) -> Database:
    """Return a target with schema ``replication``: to migrate takes ten times as long as this."""
    return make_database(target_cluster, prefix="target", template=_migrated)


@pytest.fixture(scope="session", autouse=True)
def _kept_sessions() -> Iterator[None]:
    yield
    hang_up_all()


@pytest.fixture(scope="session", autouse=True)
def _kept_workers() -> Iterator[None]:
    """Keep the processes that copy and compare for the whole run."""
    with keep_workers():
        yield


@pytest.fixture(scope="session")
def quick_java(request: pytest.FixtureRequest) -> None:
    """Let every JVM start with less work."""
    cache = getattr(request.config, "cache", None)
    if cache is not None:
        start_java_quickly(cache.mkdir("java"))


@pytest.fixture(scope="session")
def one_spark_session(
    quick_java: None,  # noqa: ARG001  its JVM is one of them
) -> Iterator[None]:
    """Keep one Spark session for all tests that use this: it takes 5 to 9 seconds to start one."""
    session = build_session(SparkConfig(master="local[2]"), "pgrepl-test", daemon=DAEMON)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionInBackground, "stop", lambda _: None)
        patch.setattr(ShardJobs, "stop", lambda _: None)
        yield
    session.stop()
