"""Another user of the machine gets nothing out of a session, and nothing into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine.listening import family, listening_ports, listening_sockets
from tests.support.machine.second_user import run_as_stranger
from tests.support.spark import spark_attack
from tests.support.waiting import wait_until

# Its first job lasts until the test writes into the pipe.
PROGRAM = """
import json, os, sys
from pathlib import Path
from pgrepl.config.model import SparkConfig
from pgrepl.replayer.spark_job import DAEMON
from pgrepl.spark.session import build_session

folder = Path(sys.argv[2])

def wait(number):
    (folder / "begun").touch()
    return (folder / "pipe").read_text()

config = SparkConfig(master="local[2]", conf=json.loads(sys.argv[1]))
session = build_session(config, "t", daemon=DAEMON)
context = session.sparkContext
token = context._gateway.gateway_parameters.auth_token
print(json.dumps({"app": context.applicationId, "token": token}), flush=True)
context.parallelize([0], 1).map(wait).collect()
session.stop()
"""
# A stranger reads blocks that are not compressed without more ado; he could read the others too.
PLAIN = {"spark.broadcast.compress": "false"}
OPEN = {"spark.authenticate": "false", "spark.python.unix.domain.socket.enabled": "false"}


@contextmanager
def running(conf: dict[str, str], own: Path) -> Iterator[dict[str, Any]]:
    """Start a session with a job, and say of it what a stranger could find out, and its token."""
    os.mkfifo(own / "pipe")
    with (
        # A path short enough for sockets.
        tempfile.TemporaryDirectory(prefix="pgrepl-open-", dir="/tmp") as place,
        (own / "log").open("wb") as log,
    ):
        # All users can look into it, as into /tmp.
        Path(place).chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(conf), str(own)],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "SPARK_LOCAL_DIRS": place, "TMPDIR": place},
        )
        with process:
            try:
                assert process.stdout is not None
                said = json.loads(process.stdout.readline())
                wait_until((own / "begun").exists)
                said["pids"] = family(process.pid)
                said["ports"] = listening_ports(said["pids"])
                said["sockets"] = listening_sockets(said["pids"])
                said["files"] = [str(path) for path in Path(place).rglob("*")]
                yield said
                (own / "pipe").write_text("done")
                assert process.wait() == 0
            finally:
                process.kill()


def attack(session: dict[str, Any], own: Path) -> dict[str, Any]:
    known = {key: session[key] for key in ("app", "files", "pids", "ports", "sockets")}
    told = json.dumps({**known, "proof": str(own / "proof")})
    outcome: dict[str, Any] = json.loads(run_as_stranger(Path(spark_attack.__file__), told))
    return outcome


@pytest.fixture
def own(tmp_path):
    """Return a folder in which nobody but this user can make a file."""
    tmp_path.chmod(0o700)
    return tmp_path


def test_no_port_socket_file_or_process_of_a_session_lets_a_stranger_in(own):
    with running(PLAIN, own) as session:
        outcome = attack(session, own)
        shown = [(Path("/proc") / str(pid) / "cmdline").read_bytes() for pid in session["pids"]]
    assert outcome.pop("uid") != own.stat().st_uid
    # The gateway, the driver's RPC and the block manager; the accumulators' server and the daemon.
    assert (len(session["ports"]), len(session["sockets"])) == (3, 2)
    assert not any(outcome.values()), outcome
    assert not (own / "proof").exists()
    assert session["token"]
    assert not any(session["token"].encode() in line for line in shown)
    # He can have himself quoted in Spark's log, but not write to the terminal that shows it.
    log = (own / "log").read_text()
    assert "scribbled" in log
    assert "\x1b" not in log
    # The blocks' folder, that of Python's own files, and that of the sockets.
    names = {Path(path).name.partition("-")[0] for path in session["files"]}
    assert names >= {"blockmgr", "pyspark", "pgrepl"}


@pytest.mark.soak
def test_the_same_attack_runs_code_in_a_session_that_is_left_open(own):
    with running(PLAIN | OPEN, own) as session:
        outcome = attack(session, own)
    assert outcome["blocks"] > 0
    assert outcome["objects"]
    assert outcome["code"]
    assert (own / "proof").exists()
    # What rests on the file system's permissions holds all the same.
    assert not outcome["files"]
