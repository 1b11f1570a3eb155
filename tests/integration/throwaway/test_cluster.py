"""Throwaway clusters come up anywhere and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from pgrepl.errors import ConfigError
from pgrepl.throwaway import Cluster, find_binaries
from pgrepl.throwaway.cluster import _make_folder
from pgrepl.throwaway.unprivileged import server_account
from tests.support.database import Database
from tests.support.waiting import wait_until

OWNER = """
import sys, time
from pathlib import Path
from pgrepl.throwaway import Cluster, find_binaries
cluster = Cluster(binaries=find_binaries(Path(sys.argv[1])))
postmaster = (cluster.data / "postmaster.pid").read_text().splitlines()[0]
print(cluster.data.parent, postmaster, flush=True)
time.sleep(600)
"""


def is_running(pid: int) -> bool:
    try:
        # A process that has ended but was not yet waited for does not count.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_clusters_can_be_told_apart(source_cluster, target_cluster):
    identifiers = {
        Database(cluster, "postgres").value("select system_identifier from pg_control_system()")
        for cluster in (source_cluster, target_cluster)
    }
    assert len(identifiers) == 2


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_server_and_folder_are_gone_whatever_ends_the_owner(binaries, sent):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, binaries.bindir],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        folder, postmaster = owner.stdout.readline().split()
        assert is_running(int(postmaster))
        owner.send_signal(sent)
        owner.wait()
    wait_until(lambda: not Path(folder).exists() and not is_running(int(postmaster)))


def test_closing_removes_everything_and_may_be_done_twice(binaries):
    with Cluster(binaries=binaries) as cluster:
        folder = cluster.data.parent
        assert folder.is_dir()
    assert not folder.exists()
    cluster.close()


def test_start_that_fails_names_the_reason_and_leaves_nothing(binaries, monkeypatch):
    made: list[Path] = []
    start_reaper = Cluster._start_reaper

    def note_folder(cluster: Cluster) -> subprocess.Popen[bytes]:
        made.append(cluster.socket_dir)
        return start_reaper(cluster)

    monkeypatch.setattr(Cluster, "_start_reaper", note_folder)
    with pytest.raises(ConfigError) as caught:
        Cluster(binaries=binaries, settings={"shared_buffers": "lots"})
    assert "shared_buffers" in (caught.value.hint or "")
    assert not made[0].exists()


def test_clusters_started_at_once_do_not_collide(binaries):
    with ThreadPoolExecutor(3) as pool:
        clusters = list(pool.map(lambda _: Cluster(binaries=binaries), range(3)))
    try:
        assert len({cluster.port for cluster in clusters}) == 3
        for cluster in clusters:
            with psycopg.connect(cluster.dsn()) as connection:
                assert connection.execute("select 1").fetchall() == [(1,)]
    finally:
        for cluster in clusters:
            cluster.close()


def test_cluster_is_ready_for_logical_decoding(source_cluster):
    with psycopg.connect(source_cluster.dsn(), autocommit=True) as connection:
        assert connection.execute("show wal_level").fetchall() == [("logical",)]
        connection.execute(
            "select pg_create_logical_replication_slot('probe', 'wal2json', temporary => true)"
        )


def test_server_does_not_run_as_root(source_cluster):
    postmaster = (source_cluster.data / "postmaster.pid").read_text().splitlines()[0]
    assert Path(f"/proc/{postmaster}").stat().st_uid != 0


def test_other_users_of_the_machine_cannot_reach_the_superuser(source_cluster):
    assert source_cluster.socket_dir.stat().st_mode & 0o077 == 0
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(source_cluster.dsn(host="127.0.0.1"))


def test_restart_keeps_port_and_data(binaries):
    with Cluster(binaries=binaries) as cluster:
        cluster.create_database("kept")
        port = cluster.port
        cluster.restart("immediate")
        assert cluster.port == port
        with psycopg.connect(cluster.dsn("kept")) as connection:
            assert connection.execute("select 1").fetchall() == [(1,)]


def test_libpq_variables_of_the_user_do_not_lead_astray(binaries, monkeypatch):
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    with Cluster(binaries=binaries) as cluster, psycopg.connect(cluster.dsn()) as connection:
        assert connection.execute("select 1").fetchall() == [(1,)]


def test_long_temporary_folder_leaves_room_for_the_socket(binaries, monkeypatch, tmp_path):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with Cluster(binaries=binaries) as cluster:
        assert len(os.fsencode(cluster.socket_dir)) < 90


@pytest.mark.skipif(os.geteuid() != 0, reason="servers run as whoever runs the test")
@pytest.mark.parametrize(("mode", "is_used"), [(0o755, True), (0o700, False)])
def test_temporary_folder_of_root_is_used_if_the_server_can_enter_it(monkeypatch, mode, is_used):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(mode)
        monkeypatch.setattr("tempfile.tempdir", folder)
        made = _make_folder(server_account())
        try:
            assert (made.parent == Path(folder)) is is_used
        finally:
            made.rmdir()


def test_folder_without_server_programs_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no PostgreSQL server") as caught:
        find_binaries(tmp_path)
    assert "postgresql-15-wal2json" in (caught.value.hint or "")


def test_server_without_the_plugin_names_its_package(binaries, tmp_path):
    bindir = tmp_path / "bin"
    bindir.mkdir()
    for name in ("initdb", "postgres", "pg_ctl"):
        (bindir / name).symlink_to(binaries.program(name))
    with pytest.raises(ConfigError, match="without the wal2json plugin") as caught:
        find_binaries(bindir)
    assert f"postgresql-{binaries.version[0]}-wal2json" in (caught.value.hint or "")
