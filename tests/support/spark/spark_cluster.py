"""A standalone Spark cluster on this machine: one master, some workers, gone with its owner.

``bare_python`` makes the Python of a cluster where nobody installed pgrepl, only its dependencies.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyspark

from pgrepl.config.model import SparkConfig
from pgrepl.throwaway.self_closing import SelfClosing
from tests.support.machine.listening import family
from tests.support.machine.quick_java import quick_options
from tests.support.waiting import wait_until

_HOME = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
# Small and quick to start: a test's cluster does little.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: psycopg[binary] and postgast, with what pip installs for them; Spark itself brings PySpark.
_FOR_EXECUTORS = ("psycopg", "postgast", "google", "protobuf", "typing_extensions")


class Host(NamedTuple):
    """Where a program runs, and what to put before its command so that it runs there."""

    address: str
    command: tuple[str, ...] = ()


HERE = Host("127.0.0.1")


class SparkCluster(SelfClosing):
    """A master and its workers, with one core and one executor each. A context manager."""

    def __init__(
        self,
        workers: int = 2,
        *,
        python: Path | None = None,
        hosts: Sequence[Host] = (),
    ) -> None:
        """Start all and wait until the workers have registered.

        ``python`` is what executors run: without it the test's own. ``hosts``: of the driver, of
        the master, and of each worker; without them all are this machine.
        """
        self._driver, self._master_host, *places = hosts or (HERE,) * (workers + 2)
        self.python = python if python is not None else Path(sys.executable)
        self._folder = Path(tempfile.mkdtemp(prefix=f"pgrepl-spark-{os.getpid()}-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._security = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
            "spark.network.crypto.enabled": "true",
        }
        # A master that is started again knows its workers and applications.
        self._recovery = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self._folder / "recovery"),
        }
        # By a file in a folder of our own: all users can see arguments.
        self._properties = self._folder / "security.properties"
        settings = {**self._security, **self._recovery}
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        self._properties.write_text("".join(lines))
        try:
            self.master = self._start_master(port=0)
            self.worker_pids = []
            for number, place in enumerate(places):
                log = self._start(
                    place,
                    f"worker{number}",
                    "worker.Worker",
                    *("--cores", "1", "--memory", "1g"),
                    *("--work-dir", str(self._folder / f"work{number}"), self.master),
                )
                self.worker_pids.append(self._processes[-1].pid)
                wait_until(partial(self._said, log, r"Successfully registered with (\S+)"))
        except BaseException:
            self.close()
            raise

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a session here, as ``[spark] conf`` has them."""
        return {
            "spark.driver.host": self._driver.address,
            "spark.driver.bindAddress": self._driver.address,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _JAVA,
            "spark.pyspark.python": str(self.python),
            **self._security,
        }

    @property
    def config(self) -> SparkConfig:
        """The section ``[spark]``."""
        return SparkConfig(master=self.master, conf=self.conf)

    def toml(self) -> str:
        """Return the section ``[spark]`` as text."""
        conf = "\n".join(f'"{key}" = "{value}"' for key, value in self.conf.items())
        return f'[spark]\nmaster = "{self.master}"\n[spark.conf]\n{conf}\n'

    def kill_worker(self, number: int) -> None:
        """Kill a worker with SIGKILL, as if its machine had died; its executor follows it."""
        (process,) = (p for p in self._processes if p.pid == self.worker_pids[number])
        self._processes.remove(process)
        process.kill()
        process.wait()

    def kill_executor(self, number: int) -> None:
        """Kill the executor of a worker; the master is asked for another."""
        pids = [pid for pid in family(self.worker_pids[number])[1:] if _is_executor(pid)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert pids, "the worker has no executor"

    def replace_master(self) -> None:
        """Kill the master, start it again at its address, and wait until all know each other."""
        master = self._processes.pop(0)
        master.kill()
        master.wait()
        self._processes.insert(0, master)
        address = self._start_master(port=int(self.master.rpartition(":")[2]), of=0)
        assert address == self.master
        log = self._folder / "master1.log"
        for who in ("Worker", "Application"):
            wait_until(partial(self._said, log, rf"({who} has been re-registered)"), timeout_s=180)

    def _start_master(self, port: int, of: int | None = None) -> str:
        """Start it, in the place of another among the processes if that is given."""
        name = "master0" if of is None else "master1"
        log = self._start(self._master_host, name, "master.Master", port=port)
        if of is not None:
            self._processes[of] = self._processes.pop()
        return wait_until(lambda: self._said(log, r"Starting Spark master at (spark://\S+)"))

    def close(self) -> None:
        """Stop everything and remove its folder."""
        # Workers first, so that they have time to end their executors.
        for process in reversed(self._processes):
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
            process.wait()

        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, host: Host, name: str, program: str, *arguments: str, port: int = 0) -> Path:
        log = self._folder / f"{name}.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "PYTHON", "SPARK"))}
        # The owner's death, of whatever kind, is theirs; executors end when their worker has.
        setpriv = shutil.which("setpriv")
        leash = [setpriv, "--pdeathsig", "KILL"] if setpriv is not None else []
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [
                    *host.command,
                    *leash,
                    str(_HOME / "bin" / "spark-class"),
                    f"{_DEPLOY}.{program}",
                    *("--host", host.address, "--port", str(port), "--webui-port", "0"),
                    *("--properties-file", str(self._properties)),
                    *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={
                    **kept,
                    "SPARK_HOME": str(_HOME),
                    "SPARK_LOCAL_IP": host.address,
                    "SPARK_LOCAL_DIRS": str(self._folder),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": _java_options(),
                },
                start_new_session=True,
            )
        self._processes.append(process)
        return log

    def _said(self, log: Path, pattern: str) -> str:
        text = log.read_text(errors="replace")
        for process in self._processes:
            assert process.poll() is None, text
        found = re.search(pattern, text)
        return found[1] if found else ""


def _is_executor(pid: int) -> bool:
    with suppress(OSError):
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _java_options() -> str:
    return f"{_JAVA} {quick_options()}"


def bare_python(folder: Path) -> Path:
    """Make a Python with what docs/cluster.md names and nothing else, and return its program."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name.startswith(_FOR_EXECUTORS):
            (site / entry.name).symlink_to(entry)
    seen = subprocess.run(
        [python, "-c", "import pgrepl"], capture_output=True, cwd="/", check=False
    )
    assert b"No module named 'pgrepl'" in seen.stderr
    return python
