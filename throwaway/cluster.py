"""One throwaway PostgreSQL server.

A small process of its own, the reaper, waits for the end of a pipe that only the cluster's owner
holds open. Whatever ends the owner, a ``close()``, Ctrl-C or ``kill -9``, closes the pipe; then the
reaper stops the server and removes its folder. There is no other way of cleaning up, so the one
that matters after a crash is the one that every test runs.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from pgrepl.errors import ConfigError
from pgrepl.throwaway.binaries import ServerBinaries, find_binaries
from pgrepl.throwaway.ports import free_port
from pgrepl.throwaway.self_closing import SelfClosing
from pgrepl.throwaway.unprivileged import Account, server_account

__all__ = ["LOGICAL_DECODING", "Cluster"]

#: What a server needs to be a source.
LOGICAL_DECODING: Mapping[str, str] = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    # From 18 on; until then the number of slots is that of origins too.
    "max_active_replication_origins": "20",
    # In postgresql.conf one quoted text is a list; in ALTER SYSTEM it would be a single name.
    # Servers before 15.19 do not know the setting.
    "output_plugin_libraries": "pgoutput, test_decoding, wal2json",
}

#: Settings that older servers do not know, and do without.
_NEWER = frozenset({"output_plugin_libraries", "max_active_replication_origins"})

# Nobody misses the data of a throwaway cluster after a power cut.
_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "logging_collector": "off",
    "log_min_messages": "warning",
}

# The owner may have died while the server was still coming up and making files, so both steps are
# repeated until nothing is left; five minutes are more than that takes.
_REAPER = """
cat >/dev/null
tries=0
while [ -e "$2" ] && [ $tries -lt 3000 ]; do
    "$1" stop -D "$2/data" -m immediate -s -t 60
    rm -rf "$2" || sleep 0.1
    tries=$((tries + 1))
done
"""

# sockaddr_un holds 108 bytes; the socket's own name takes up to 15 of them.
_SOCKET_DIR_BYTES = 90
_START_TRIES = 5


class Cluster(SelfClosing):
    """A server in a temporary folder. Use it as a context manager, or ``close()`` it."""

    def __init__(
        self,
        *,
        settings: Mapping[str, str] = LOGICAL_DECODING,
        binaries: ServerBinaries | None = None,
    ) -> None:
        """Initialise and start the server."""
        self.binaries = binaries if binaries is not None else find_binaries()
        self.port = 0
        self._account = server_account()
        self._folder = _make_folder(self._account)
        self._reaper = self._start_reaper()
        try:
            self.initialise()
            self.configure({**_FAST, **settings})
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self._folder / "data"

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._folder / "log"

    @property
    def socket_dir(self) -> Path:
        """The folder of the Unix socket; only the owner and root can enter it."""
        return self._folder

    def dsn(self, dbname: str = "postgres", **parameters: str) -> str:
        """Return a conninfo: as the superuser over the Unix socket unless told otherwise."""
        given = {"host": str(self.socket_dir), "user": "postgres", **parameters}
        return make_conninfo(dbname=dbname, port=str(self.port), **given)

    def create_database(self, name: str, *, template: str = "template1") -> None:
        """Make a database, a copy of the template with all its tables and rows."""
        # To copy files takes less than to write every page to the WAL.
        statement = SQL("create database {} template {} strategy file_copy").format(
            Identifier(name), Identifier(template)
        )
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(statement)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add settings to ``postgresql.conf``; they hold from the next start or reload on."""
        lines = [
            f"{name} = {_quote(value)}\n"
            for name, value in settings.items()
            if name not in _NEWER or name in self.binaries.settings
        ]
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(lines)

    def start(self) -> None:
        """Start the server, on a free port the first time."""
        if self.port:
            self._pg_ctl_start()
            return
        for attempt in range(_START_TRIES):
            # Another program may take the port between our look and the server's start.
            self.port = free_port()
            try:
                self._pg_ctl_start()
            except ConfigError:
                if attempt == _START_TRIES - 1 or "could not bind" not in self._log_tail():
                    raise
            else:
                return

    def stop(self, mode: str = "fast") -> None:
        """Stop the server and keep its folder; mode ``immediate`` is a crash."""
        self._run("pg_ctl", "stop", "-D", self.data, "-m", mode, "-s", "-w")

    def restart(self, mode: str = "fast") -> None:
        """Stop and start the server on the same port."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop the server and remove everything of it. Closing twice does nothing."""
        if self._reaper.stdin is not None and not self._reaper.stdin.closed:
            self._reaper.stdin.close()
        self._reaper.wait()

    def initialise(self) -> None:
        """Make the data directory, with the settings that initdb gives."""
        self._run(
            "initdb",
            *("-D", self.data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"),
            *("--auth-local=trust", "--auth-host=scram-sha-256"),
            # initdb would make a folder again that the reaper has just removed: it holds the pipe
            # open too, and the reaper waits for both to end.
            pass_fds=() if self._reaper.stdin is None else (self._reaper.stdin.fileno(),),
        )

    def _pg_ctl_start(self) -> None:
        options = (
            f"-c port={self.port} -c listen_addresses=127.0.0.1"
            f" -c unix_socket_directories={self.socket_dir}"
        )
        self._run(
            "pg_ctl",
            "start",
            "-D",
            self.data,
            "-l",
            self.log,
            "-s",
            "-w",
            "-t",
            "60",
            "-o",
            options,
        )

    def _start_reaper(self) -> subprocess.Popen[bytes]:
        pg_ctl = str(self.binaries.program("pg_ctl"))
        return subprocess.Popen(
            ["/bin/sh", "-c", _REAPER, "pgrepl-reaper", pg_ctl, str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the owner, not for the one who tidies up
            **self._account.subprocess_user,
        )

    def _run(self, program: str, *arguments: str | Path, pass_fds: Sequence[int] = ()) -> None:
        # Output goes to a file, not to a pipe: the server would keep a pipe open for ever.
        output = self._folder / "output"
        with output.open("wb") as sink:
            done = subprocess.run(
                [self.binaries.program(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=_environment(),
                pass_fds=pass_fds,
                check=False,
                **self._account.subprocess_user,
            )
        if done.returncode != 0:
            said = output.read_text(errors="replace").strip()
            raise ConfigError(
                f"{program} of a throwaway cluster failed as user {self._account.name}",
                hint=f"{program} said: {said}\n{self._log_tail()}".strip(),
            )

    def _log_tail(self) -> str:
        with suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])
        return ""


def _make_folder(account: Account) -> Path:
    # Root's TMPDIR may be closed to the server's account, and a long one has no room for a socket.
    prefix = f"pgrepl-{os.getpid()}-"  # tells who owns it
    wanted = tempfile.gettempdir()
    if len(os.fsencode(wanted)) + len(prefix) > _SOCKET_DIR_BYTES - 10 or (
        os.geteuid() == 0 and not _is_open_to_all(Path(wanted))
    ):
        wanted = "/tmp"  # noqa: S108  mkdtemp makes a private folder in it
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=wanted))
    account.own(folder)
    return folder


def _is_open_to_all(folder: Path) -> bool:
    return all(step.stat().st_mode & stat.S_IXOTH for step in (folder, *folder.parents))


def _environment() -> dict[str, str]:
    """Return our environment without what would make libpq or the server do something else."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_"))}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _quote(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
