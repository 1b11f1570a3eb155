"""Run the program as a person does: in a process of its own, with a configuration file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.support.machine.fork_server import CHUNK_ROWS, ForkedProcess, fork_server

COMMAND = (str(Path(sys.executable).with_name("pgrepl")),)


#: What a program looks into only when it runs, or what the fork server sees to.
_LATE = frozenset({"PGREPL_FAILPOINT", "PGREPL_CONFIG", "PGPASSFILE", "JAVA_HOME", CHUNK_ROWS})


def start_pgrepl(
    *arguments: str | Path, env: Mapping[str, str], sink: IO[bytes], is_fresh: bool = False
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start it; what it writes goes to a file.

    It is started from nothing where its memory is measured or its environment asks for that.
    """
    command = [*COMMAND, *map(str, arguments)]
    given = {**_environment(), **env}
    if env.keys() <= _LATE and not is_fresh:
        return fork_server().start(command, given, sink, sink)
    return subprocess.Popen(command, stdout=sink, stderr=sink, env=given)


def run_pgrepl(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it to its end.

    With an environment of its own it is started from nothing: modules may look into that early.
    """
    given = {**_environment(), **(env or {})}
    if (env or {}).keys() <= _LATE and cwd is None:
        return fork_server().run([*COMMAND, *map(str, arguments)], given)
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=given,
        cwd=cwd,
        check=False,
    )


def _environment() -> Mapping[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")}


def write_config(path: Path, target: str, sources: Mapping[str, str], more: str = "") -> Path:
    """Write a configuration of DSNs; ``more`` is TOML to stand before the sources."""
    lines = ["[target]", f"dsn = {json.dumps(target)}", more]
    for name, dsn in sources.items():
        lines += [f"[sources.{name}]", f"dsn = {json.dumps(dsn)}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
