"""One throwaway Kafka broker: Apache Kafka in KRaft mode, on the loopback interface.

Its jars are what ``scripts/setup.sh`` put into the cache of the user. As with a cluster, a small
process waits for the end of a pipe that only the owner holds open, and then ends the broker and
removes its folder.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgrepl.errors import ConfigError
from pgrepl.throwaway.ports import free_port
from pgrepl.throwaway.self_closing import SelfClosing

__all__ = ["KAFKA_VERSION", "Broker", "SecureListener", "find_jars", "make_cluster_id"]

#: ``scripts/setup.sh`` fetches the same.
KAFKA_VERSION = "4.3.1"

_START_S = 120.0
_POLL_S = 0.05
_STARTED = "Kafka Server started"

#: A small heap and quick compilation: a broker of tests lives for a minute and holds little.
_JAVA_OPTIONS = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)

_SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # There is one broker, so that nothing can have a second copy.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Transactions that took too long are ended when they did, not 10 s later.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # Small segments are deleted and compacted when a test asks for it, not an hour later.
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.threads": "1",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
}

_REAPER = """
cat >/dev/null
pid=$(cat "$1/pid" 2>/dev/null)
case "$(ps -o args= -p "${pid:-0}" 2>/dev/null)" in *"$1"*) kill -9 "$pid" ;; esac
tries=0
while [ -e "$1" ] && [ $tries -lt 300 ]; do
    rm -rf "$1" || sleep 0.1
    tries=$((tries + 1))
done
"""


@dataclass(frozen=True, slots=True)
class SecureListener:
    """A second listener, with TLS and passwords."""

    #: The server's key and its certificate, in one file of PEM.
    keystore: Path
    user: str
    password: str = field(repr=False)


def make_cluster_id() -> str:
    """Return a random number as Kafka prints it, but none that would be taken for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class Broker(SelfClosing):
    """A broker in a temporary folder. Use it as a context manager, or ``close()`` it."""

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        jars: Path | None = None,
        secure: SecureListener | None = None,
    ) -> None:
        """Format the folder and start the broker; ``settings`` are added to its properties."""
        self._jars = jars if jars is not None else find_jars()
        self._java = _find_java()
        self._folder = Path(tempfile.mkdtemp(prefix=f"pgrepl-kafka-{os.getpid()}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper = subprocess.Popen(
            ["/bin/sh", "-c", _REAPER, "pgrepl-reaper", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        try:
            self.port = free_port()
            self._secure_port = free_port()
            self._write_properties({**(_secured(secure) if secure else {}), **(settings or {})})
            self._format()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def bootstrap(self) -> str:
        """What a client takes as ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure_bootstrap(self) -> str:
        """The same for the listener with TLS and passwords, if there is one."""
        return f"127.0.0.1:{self._secure_port}"

    @property
    def log(self) -> Path:
        """The broker's own log."""
        return self._folder / "log"

    def start(self) -> None:
        """Start the broker on its port and wait until it answers."""
        with self.log.open("wb") as sink:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )
        (self._folder / "pid").write_text(str(self._process.pid))
        until = time.monotonic() + _START_S
        while _STARTED not in self._log_text():
            if self._process.poll() is not None or time.monotonic() > until:
                tail = "\n".join(self._log_text().splitlines()[-10:])
                raise ConfigError("a throwaway Kafka broker did not start", hint=tail)
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Kill the broker and keep its folder, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop the broker and remove everything of it. Closing twice does nothing."""
        self.stop()
        if self._reaper.stdin is not None and not self._reaper.stdin.closed:
            self._reaper.stdin.close()
        self._reaper.wait()

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    def _write_properties(self, settings: Mapping[str, str]) -> None:
        controller = f"127.0.0.1:{free_port()}"
        listeners = [f"PLAINTEXT://{self.bootstrap}", f"CONTROLLER://{controller}"]
        if "ssl.keystore.location" in settings:
            listeners.append(f"SASL_SSL://{self.secure_bootstrap}")
        own = {
            "listeners": ",".join(listeners),
            "controller.quorum.bootstrap.servers": controller,
            "log.dirs": str(self._folder / "data"),
        }
        lines = [f"{key}={value}\n" for key, value in {**_SETTINGS, **own, **settings}.items()]
        self._properties.write_text("".join(lines))

    def _format(self) -> None:
        arguments = ("format", "--standalone", "-t", make_cluster_id(), "-c", str(self._properties))
        done = subprocess.run(
            self._command("kafka.tools.StorageTool", *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        if done.returncode != 0:
            raise ConfigError(
                "the folder of a throwaway Kafka broker could not be formatted",
                hint=(done.stdout + done.stderr).strip(),
            )

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [self._java, *_JAVA_OPTIONS, "-cp", f"{self._jars}/*", main, *arguments]

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace")


def _secured(listener: SecureListener) -> Mapping[str, str]:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(listener.keystore),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{login} required user_{listener.user}="{listener.password}";'
        ),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL"
        ),
    }


def find_jars() -> Path:
    """Return the folder of Kafka's jars.

    Raises
    ------
    ConfigError
        when nobody has fetched them.

    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "pgrepl" / f"kafka-{KAFKA_VERSION}"
    if not folder.is_dir():
        raise ConfigError(
            f"there is no Kafka in {folder}",
            hint="Run make setup in the repository: it fetches it.",
        )
    return folder


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise ConfigError("there is no Java", hint="Install Java 17 or newer, or set JAVA_HOME.")
    return java
