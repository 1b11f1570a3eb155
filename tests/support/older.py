"""Programs of this repository's history, run beside the one of today."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from pgrepl.store.migrations import known_migrations
from tests.support.own_code import ROOT

__all__ = ["Older", "history_is_here", "install_before", "steps_with_a_program_before"]

#: Where steps of the schema are; before it was called so, nothing could be upgraded.
_STEPS = "core/store/sql"

_IMPORT_ALL = """
import importlib, pkgutil, pgrepl
for module in pkgutil.walk_packages(pgrepl.__path__, "pgrepl."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


@cache
def history_is_here() -> bool:
    """Whether this is a checkout with all commits: a package of the code alone has none."""
    return _git("rev-parse", "--is-shallow-repository") == "false"


def _steps_of(commit: str) -> frozenset[str]:
    files = _git("ls-tree", "--name-only", commit, f"{_STEPS}/").splitlines()
    return frozenset(Path(file).stem for file in files if Path(file).name[0].isdigit())


@cache
def steps_with_a_program_before() -> Mapping[int, str]:
    """Return steps of the schema with the commit before each, one step for each such commit.

    Found by the files, for hashes may change. A program whose steps got other numbers later is of
    work that was not together yet.
    """
    known = {f"{step.version:04}_{step.name}" for step in known_migrations()}
    additions = _git(
        *("log", "--first-parent", "-m", "--diff-filter=A", "--name-only", "--format=%x00%P"),
        *("--", f"{_STEPS}/"),
    )
    before: dict[str, str] = {}
    for commit in additions.split("\0")[1:]:
        parents, *files = commit.split("\n")
        for name in {Path(file).stem for file in files} & known:
            before.setdefault(name, parents.partition(" ")[0])
    found: dict[int, str] = {}
    for name, commit in sorted(before.items()):
        steps = _steps_of(commit) if commit and commit not in found.values() else frozenset()
        if steps and steps <= known:
            found[int(name[:4])] = commit
    return found


@dataclass(frozen=True, slots=True)
class Older:
    """An older program, as it is installed, and the newest version of the schema it knows."""

    package: Path
    version: int

    def run(self, config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self._command(config, arguments),
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )

    def must(self, config: Path, *arguments: str) -> None:
        """Run it, and insist that it succeeds."""
        done = self.run(config, *arguments)
        assert done.returncode == 0, done.stderr

    def is_refused(self, config: Path, *arguments: str) -> bool:
        """Whether it refuses the schema of a newer program."""
        done = self.run(config, *arguments)
        refusal = f"knows versions up to {self.version}"
        return done.returncode == 30 and refusal in done.stderr

    @contextmanager
    def running(
        self, config: Path, log: Path, *arguments: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Let it run; what it writes goes to a file."""
        with log.open("ab") as sink:
            process = subprocess.Popen(
                self._command(config, arguments), env=self._env, stdout=sink, stderr=sink
            )
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(120)

    def _command(self, config: Path, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "pgrepl.cli", *arguments, "--config", str(config)]

    @property
    def _env(self) -> Mapping[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        return {**kept, "PYTHONPATH": str(self.package)}


def install_before(step: int, folder: Path) -> Older:
    """Lay out the program before a step of the schema as it is installed.

    Work that came in several commits is whole in the last of them: those between do not import.
    """
    if not history_is_here():
        pytest.skip("the history of this repository is not here")
    commit = steps_with_a_program_before()[step]
    for candidate in _git("log", "--first-parent", "-40", "--format=%H", commit).split():
        installed = folder / candidate
        _install(candidate, installed)
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        done = subprocess.run(
            [sys.executable, "-c", _IMPORT_ALL], env=environment, capture_output=True, check=False
        )
        if done.returncode == 0:
            newest = max(int(name[:4]) for name in _steps_of(candidate))
            return Older(installed, newest)
        shutil.rmtree(installed)
    raise AssertionError(f"no commit before {commit} is a whole program")


def _install(commit: str, folder: Path) -> None:
    packed = subprocess.run(["git", "-C", ROOT, "archive", commit], capture_output=True, check=True)
    with tempfile.TemporaryDirectory() as checkout:
        subprocess.run(["tar", "-xf", "-", "-C", checkout], input=packed.stdout, check=True)
        package = folder / "pgrepl"
        shutil.copytree(Path(checkout, "core"), package)
        for found in Path(checkout).iterdir():
            if (found / "__init__.py").exists() and found.name not in {"core", "tests"}:
                shutil.copytree(found, package / found.name)
