"""What every demonstration has: a console, a configuration, and commands as a person types them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
from rich.console import Console

from pgrepl.errors import PgreplError
from pgrepl.postgres.queries import load_query
from pgrepl.throwaway import Cluster

__all__ = ["DemoConsole", "fill"]


class DemoConsole:
    """Shows commands and what they print."""

    def __init__(self, folder: Path) -> None:
        """Keep the configuration in a folder."""
        self._console = Console(highlight=False, soft_wrap=True)
        self._config = folder / "pgrepl.toml"

    def _title(self, text: str) -> None:
        """Show what comes next."""
        self._console.rule(f"[bold]{text}", align="left")

    def _pgrepl(self, *arguments: str, expected: int = 0, is_captured: bool = False) -> str:
        """Run pgrepl as a person would, and insist on the exit code that belongs here."""
        self._console.print(f"$ pgrepl {' '.join(arguments)}", style="cyan")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pgrepl.cli", *arguments, "--config", self._config],
            stdout=subprocess.PIPE if is_captured else None,
            text=True,
            check=False,
        )
        if done.returncode != expected:
            raise PgreplError(
                f"the demo expected exit code {expected} of pgrepl {arguments[0]},"
                f" got {done.returncode}"
            )
        self._console.print(f"exit code {done.returncode}\n", style="dim")
        return done.stdout or ""


def fill(cluster: Cluster, dbname: str, script: str) -> None:
    """Make a database and fill it with one of our scripts."""
    cluster.create_database(dbname)
    with psycopg.connect(cluster.dsn(dbname)) as connection:
        connection.execute(load_query("pgrepl.demo", script))
