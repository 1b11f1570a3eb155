"""Examine the machine that pgrepl runs on: Java, Spark, the clock, the configuration's file."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pgrepl import __version__
from pgrepl.config.model import Config, SparkConfig
from pgrepl.doctor.finding import Finding, Remedy, Status, listed
from pgrepl.errors import ConfigError
from pgrepl.postgres.programs import find_client
from pgrepl.terminal import shell_word

__all__ = [
    "ClockReading",
    "SparkProbe",
    "check_clocks",
    "check_config_file",
    "check_java",
    "check_pg_dump",
]

logger = logging.getLogger(__name__)

MINIMUM_JAVA = 17
#: A session on a loaded machine takes up to 20 s; one on a cluster may wait for its executors.
SPARK_PATIENCE_S = 120
#: NTP keeps machines well within this; what a binding of time to LSN says is off by no more.
CLOCK_TOLERANCE = timedelta(seconds=2)

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_REMEDY = Remedy(
    shell=("apt-get install openjdk-17-jre-headless",), then="or set JAVA_HOME to a Java runtime"
)


def check_java(environment: Mapping[str, str]) -> Finding:
    """Spark needs a Java runtime; it takes the one of JAVA_HOME, else the one on PATH."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return Finding("java", Status.FAILURE, "there is no Java runtime", _JAVA_REMEDY)
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return Finding("java", Status.FAILURE, f"{java} does not run", _JAVA_REMEDY)
    match = _JAVA_VERSION.search(done.stderr + done.stdout)
    major = int(match[1]) if match else 0
    if major < MINIMUM_JAVA:
        message = f"{java} is Java {major or 'of unknown version'}; Spark needs {MINIMUM_JAVA}"
        return Finding("java", Status.FAILURE, message, _JAVA_REMEDY)
    return Finding.ok("java", f"Java {major} at {java}")


class SparkProbe:
    """A small Spark job in a process of its own, so that it runs while databases are examined."""

    def __init__(self, config: SparkConfig) -> None:
        """Start the job."""
        self._config = config
        #: Those settings of the session that are judged; None as long as none ran.
        self.settings: Mapping[str, str] | None = None
        # By a file without a name: settings may hold secrets, and ps shows arguments to every user.
        with tempfile.TemporaryFile("w+", encoding="utf-8") as settings:
            json.dump({"master": config.master, "conf": dict(config.conf)}, settings)
            settings.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pgrepl.doctor.spark_job"],
                stdin=settings,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    def finding(self) -> Finding:
        """Wait for the job and judge it."""
        master = self._config.shown_master
        try:
            answer, log = self._process.communicate(timeout=SPARK_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.cancel()
            return Finding(
                "spark",
                Status.FAILURE,
                f"a job on {master} gave no result within {SPARK_PATIENCE_S} s",
                Remedy(then="see in the cluster's own UI whether it has executors to spare"),
            )
        for line in self._config.redact(log).splitlines():
            logger.debug("spark: %s", line)
        if self._process.returncode != 0:
            return Finding(
                "spark",
                Status.FAILURE,
                f"a job on {master} failed: {self._config.redact(_last_error(log))}",
                Remedy(shell=("pgrepl doctor --verbose",), then="correct [spark] in pgrepl.toml"),
            )
        versions = json.loads(answer)
        self.settings = versions["conf"]
        if versions["worker"] != __version__:
            return Finding(
                "spark",
                Status.FAILURE,
                f"workers of {master} have pgrepl {versions['worker']}, this is {__version__}",
                Remedy(shell=(f"pip install pgrepl=={__version__}",), then="on every worker"),
            )
        return Finding.ok(
            "spark", f"Spark {versions['spark']} runs on {master}, workers see pgrepl"
        )

    def cancel(self) -> None:
        """End the job; its JVM ends with it."""
        self._process.kill()
        self._process.communicate()


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"(Error|Exception)\b", line)]
    return (named or lines or ["it said nothing"])[-1][:300]


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A server's clock beside ours."""

    name: str
    server: datetime
    #: Our own times around the query.
    before: datetime
    after: datetime

    @property
    def ahead(self) -> timedelta:
        """How far the server's clock is ahead of ours."""
        return self.server - self.before - (self.after - self.before) / 2

    @property
    def is_off(self) -> bool:
        """Whether the clocks differ by more than the query's own time explains."""
        return abs(self.ahead) - (self.after - self.before) / 2 > CLOCK_TOLERANCE


def check_clocks(readings: Sequence[ClockReading]) -> Finding:
    """Lag in seconds and the progress table compare clocks of different machines."""
    if not readings:
        return Finding.skipped("clock", "cannot be compared before a server answers")
    off = [f"{r.name} by {r.ahead.total_seconds():+.1f} s" for r in readings if r.is_off]
    if not off:
        return Finding.ok("clock", "agrees with the clocks of the servers")
    return Finding(
        "clock",
        Status.WARNING,
        f"clocks differ from this machine's, so lag in seconds is wrong: {listed(off)}",
        Remedy(shell=("timedatectl set-ntp true",), then="on the machine whose clock is wrong"),
        tuple(off),
    )


def check_pg_dump(source_versions: Sequence[int]) -> Finding:
    """Basebackup reads a source's schema with pg_dump, which must not be older than the source."""
    newest = max(source_versions, default=0) // 10000
    try:
        program = find_client("pg_dump", newest)
    except ConfigError as exc:
        return Finding("pg-dump", Status.FAILURE, exc.message, Remedy(then=exc.hint))
    return Finding.ok("pg-dump", f"{program}")


def check_config_file(config: Config) -> Finding:
    """A password in the file is for no other user."""
    dsns = [config.target.dsn, *(source.dsn for source in config.sources.values())]
    mode = stat.S_IMODE(os.stat(config.path).st_mode)  # noqa: PTH116  follows links on purpose
    has_secret = any(dsn.has_password for dsn in dsns) or bool(config.spark.secret_conf())
    if not has_secret or not mode & (stat.S_IRGRP | stat.S_IROTH):
        return Finding.ok("config-file", f"{config.path}")
    return Finding(
        "config-file",
        Status.WARNING,
        f"{config.path} holds a password and can be read by others",
        Remedy(
            shell=(f"chmod 600 {shell_word(str(config.path))}",),
            then="or keep the password in ~/.pgpass",
        ),
    )
