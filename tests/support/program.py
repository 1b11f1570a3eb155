"""Run the program as a person does: in a process of its own, with a configuration file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.fork_server import fork_server

COMMAND = (str(Path(sys.executable).with_name("pgrepl")),)


def run_pgrepl(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it to its end.

    With an environment of its own it is started from nothing: modules may look into that early.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    if not env and cwd is None:
        return fork_server().run([*COMMAND, *map(str, arguments)], kept)
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env={**kept, **(env or {})},
        cwd=cwd,
        check=False,
    )


def write_config(path: Path, target: str, sources: Mapping[str, str], more: str = "") -> Path:
    """Write a configuration of DSNs; ``more`` is TOML to stand before the sources."""
    lines = ["[target]", f"dsn = {json.dumps(target)}", more]
    for name, dsn in sources.items():
        lines += [f"[sources.{name}]", f"dsn = {json.dumps(dsn)}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
