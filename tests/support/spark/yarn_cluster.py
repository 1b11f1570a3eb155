"""YARN on this machine: a ResourceManager and NodeManagers, gone with their owner.

Apache publishes its servers as one jar, which is fetched once into the user's cache; the rest of
Hadoop comes with PySpark.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark

from pgrepl.throwaway.ports import free_port
from pgrepl.throwaway.self_closing import SelfClosing
from tests.support.machine.listening import family
from tests.support.waiting import wait_until

_JARS = Path(pyspark.__file__).parent / "jars"
_BOUNCY_CASTLE = "1.82"
_SERVER = "org.apache.hadoop.yarn.server"
#: A first start on a machine with other work.
_PATIENCE_S = 120
_LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""


def fetch_hadoop() -> Path:
    """Return a folder with YARN's servers, of the version that PySpark brings; fetch it if needed.

    Tests have a cache of their own, which ends with them: this is in that of the user.
    """
    (api,) = _JARS.glob("hadoop-client-api-*.jar")
    version = api.stem.rpartition("-")[2]
    cache = Path.home() / ".cache" / "pgrepl"
    folder = cache / f"yarn-{version}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        (ivy,) = _JARS.glob("ivy-*.jar")
        with tempfile.TemporaryDirectory(prefix="yarn-fetch-", dir=cache) as part:
            # Spark has what else the first one needs.
            for module in (
                ("org.apache.hadoop", "hadoop-client-minicluster", version),
                ("org.bouncycastle", "bcprov-jdk18on", _BOUNCY_CASTLE),
                ("org.bouncycastle", "bcutil-jdk18on", _BOUNCY_CASTLE),
                ("org.bouncycastle", "bcpkix-jdk18on", _BOUNCY_CASTLE),
            ):
                subprocess.run(
                    [
                        *("java", "-jar", ivy, "-error", "-cache", f"{part}/ivy"),
                        *("-confs", "default", "-notransitive", "-dependency", *module),
                        *("-retrieve", f"{part}/jars/[artifact]-[revision].[ext]"),
                    ],
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
            # Whole or not there: two of us may fetch at once.
            with suppress(OSError):
                Path(part, "jars").rename(folder)
    return folder


def pack_python(python: Path, archive: Path) -> Path:
    """Pack an environment as ``spark.yarn.dist.archives`` takes it, with what its links name."""
    home = python.parent.parent
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for entry in sorted(home.rglob("*")):
            # The interpreter's own links stay: its library is where they lead.
            is_package = entry.is_symlink() and "site-packages" in entry.parts
            name = str(entry.relative_to(home))
            if is_package:
                packed.add(entry.resolve(), name)
            elif not entry.is_dir() or entry.is_symlink():
                packed.add(entry, name, recursive=False)
    return archive


class YarnCluster(SelfClosing):
    """A ResourceManager and some NodeManagers. A context manager."""

    def __init__(self, nodes: int = 1) -> None:
        """Start all and wait until the nodes have registered."""
        jars = fetch_hadoop()
        self._folder = Path(tempfile.mkdtemp(prefix=f"pgrepl-yarn-{os.getpid()}-"))
        self._class_path = f"{jars}/*:{_JARS}/*"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        #: Clients have to know them before the servers have started.
        self._manager = {
            f"yarn.resourcemanager.{name}address": f"127.0.0.1:{free_port()}"
            for name in ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
        }
        self.conf_folder = self._folder / "conf"
        self._write_conf(self.conf_folder, {})
        try:
            self.start_manager()
            for number in range(nodes):
                self._start_node(f"node{number}")
        except BaseException:
            self.close()
            raise

    @property
    def conf(self) -> dict[str, str]:
        """The settings of a session here that have to do with where it runs."""
        return {
            # All machines are this one: nothing has to be uploaded.
            "spark.yarn.jars": f"local:{_JARS}/*",
            "spark.yarn.stagingDir": str(self._folder),
            "spark.driver.host": "127.0.0.1",
        }

    def start_manager(self) -> None:
        """Start the ResourceManager; it goes on from what an earlier one has stored."""
        log = self._start("manager", self.conf_folder, "resourcemanager.ResourceManager")
        self._await("manager", log, "Transitioned to active state")

    def replace_manager(self) -> None:
        """Kill the ResourceManager, and start it again at its address."""
        self._kill("manager")
        self.start_manager()

    def kill_one(self, program: str) -> None:
        """Kill one process of a program that runs in a container."""
        pids = self._find(program)
        assert pids, f"no container runs {program}"
        os.kill(pids[0], signal.SIGKILL)

    def count(self, program: str) -> int:
        """Return how many processes of a program run in containers."""
        return len(self._find(program))

    def _find(self, program: str) -> list[int]:
        found = []
        for name, process in self._processes.items():
            if name == "manager":
                continue
            for pid in family(process.pid)[1:]:
                with suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    # Not the shells that start it.
                    if words[0].endswith(b"java") and any(
                        w.endswith(program.encode()) for w in words
                    ):
                        found.append(pid)
        return found

    def _start_node(self, name: str) -> None:
        conf = self._folder / f"{name}-conf"
        local = {
            "yarn.nodemanager.local-dirs": str(self._folder / f"{name}-local"),
            "yarn.nodemanager.log-dirs": str(self._folder / f"{name}-logs"),
        }
        self._write_conf(conf, local)
        log = self._start(name, conf, "nodemanager.NodeManager")
        self._await(name, log, "Registered with ResourceManager")

    def _write_conf(self, folder: Path, more: Mapping[str, str]) -> None:
        folder.mkdir()
        server = f"{_SERVER}.resourcemanager"
        yarn = {
            **self._manager,
            "yarn.resourcemanager.scheduler.class": f"{server}.scheduler.fifo.FifoScheduler",
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": f"{server}.recovery.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": f"file://{self._folder}/state",
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.address": "127.0.0.1:0",
            "yarn.nodemanager.localizer.address": "127.0.0.1:0",
            "yarn.nodemanager.webapp.address": "127.0.0.1:0",
            "yarn.nodemanager.collector-service.address": "127.0.0.1:0",
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.enable": "false",
            **more,
        }
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self._folder / "tmp")}
        for name, settings in (("core", core), ("yarn", yarn)):
            properties = "".join(
                f"<property><name>{key}</name><value>{escape(value)}</value></property>\n"
                for key, value in settings.items()
            )
            (folder / f"{name}-site.xml").write_text(
                f"<configuration>\n{properties}</configuration>\n", encoding="utf-8"
            )
        (folder / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")

    def _start(self, name: str, conf: Path, program: str) -> Path:
        log = self._folder / f"{name}.log"
        java = shutil.which("java") or "java"
        if home := os.environ.get("JAVA_HOME"):
            java = str(Path(home, "bin", "java"))
        # The owner's death, of whatever kind, is theirs; containers are asked to end before.
        setpriv = shutil.which("setpriv")
        leash = [setpriv, "--pdeathsig", "TERM"] if setpriv is not None else []
        with log.open("wb") as sink:
            self._processes[name] = subprocess.Popen(
                [
                    *leash,
                    *(java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"),
                    *("-cp", f"{conf}:{self._class_path}", f"{_SERVER}.{program}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={**os.environ, "HADOOP_CONF_DIR": str(conf)},
                start_new_session=True,
            )
        return log

    def _await(self, name: str, log: Path, words: str) -> None:
        def is_there() -> bool:
            text = log.read_text(errors="replace")
            assert self._processes[name].poll() is None, text[-4000:]
            return re.search(words, text) is not None

        wait_until(is_there, timeout_s=_PATIENCE_S)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def close(self) -> None:
        """Stop everything and remove its folder."""
        containers = {
            pid
            for name, process in self._processes.items()
            for pid in family(process.pid)[1:]
            if name != "manager"
        }
        for name in sorted(self._processes, reverse=True):
            self._kill(name)
        for pid in containers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)
