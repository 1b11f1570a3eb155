"""A session that ends at any moment is said to be what it is, and never taken for a bug.

The connection of a command is cut, or its server process ended, before one piece of data after the
other: each message of a session is the last one once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pgrepl.config.dsn import Dsn
from pgrepl.config.model import Config
from pgrepl.errors import PgreplError
from pgrepl.receiver import Receiver, ReceiverSettings
from pgrepl.replayer import Replayer
from tests.support.database import Database
from tests.support.machine.proxy import Proxy
from tests.support.program import run_pgrepl
from tests.support.running.live import Live
from tests.support.running.pipeline import ALONE, NoDdl
from tests.support.streams.exporting import FileExport
from tests.support.streams.kafka import Stream
from tests.support.waiting import wait_until

#: No command of these has more pieces.
_MOST_PIECES = 2000
_SETTINGS = ReceiverSettings(
    backoff_s=0.01, backoff_limit_s=0.05, once_patience_s=5.0, predecessor_s=10.0
)


class Broken:
    """Runs a command again and again, each time with a session that ends a little later."""

    def __init__(self, database: Database, *, stride: int) -> None:
        self._database = database
        self._stride = stride
        self.errors: list[PgreplError] = []
        self.run_count = 0

    def sweep(
        self,
        run: Callable[[str], object],
        before: Callable[[], object],
        *,
        is_terminated: bool,
        first: int = 1,
    ) -> None:
        """``before`` sees to something to do; ``run`` gets the way to the database."""
        for piece in range(first, _MOST_PIECES, self._stride):
            before()
            with Proxy(self._database) as proxy:
                proxy.end_session_at(piece, is_terminated=is_terminated)
                self.run_count += 1
                try:
                    self._run(run, proxy.dsn)
                except Exception as exc:
                    exc.add_note(f"the session ended at piece {piece}")
                    raise
                if not proxy.has_ended_session:
                    return
        raise AssertionError("the command has no end")

    def _run(self, run: Callable[[str], object], dsn: str) -> None:
        try:
            run(dsn)
        except PgreplError as exc:
            self.errors.append(exc)
        assert not [error for error in self.errors if error.exit_code == 1]


def through(config: Config, side: str, dsn: str) -> Config:
    """Return a configuration that leads to one of its databases through a proxy."""
    if side == "target":
        return replace(config, target=replace(config.target, dsn=Dsn(dsn)))
    sources = {name: replace(own, dsn=Dsn(dsn)) for name, own in config.sources.items()}
    return replace(config, sources=sources)


def receive(config: Config) -> None:
    (source,) = config.sources.values()
    Receiver(config, source, settings=_SETTINGS).run(once=True)


def replay(config: Config) -> None:
    (result,) = Replayer(config, NoDdl(), ALONE).run(once=True)
    if result.error is not None:
        raise result.error


@pytest.fixture
def live(source: Database, target: Database, tmp_path: Path) -> Live:
    return Live(source, target, tmp_path).begin("create table t (id serial primary key, a int)")


WAYS = pytest.mark.parametrize("is_terminated", [False, True], ids=["cut", "terminated"])
STRIDES = pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.soak)])


@WAYS
@STRIDES
@pytest.mark.parametrize("side", ["source", "target"])
def test_receive(live, side, is_terminated, stride):
    broken = Broken(getattr(live, side), stride=stride)
    broken.sweep(
        lambda dsn: receive(through(live.config, side, dsn)),
        lambda: live.source.execute("insert into app.t (a) values (1)"),
        is_terminated=is_terminated,
    )
    live.follow()
    assert live.differences("t") == set()
    assert broken.run_count > 5


@WAYS
@STRIDES
def test_receive_of_a_stream(target, tmp_path, is_terminated, stride):
    folder = tmp_path / "drop"
    folder.mkdir()
    stream = Stream(target, tmp_path, kind="files", path=str(folder), key=["id"])
    schema = {"type": "struct", "fields": [{"type": "int32", "field": "id", "optional": False}]}
    number = 0

    def send() -> None:
        nonlocal number
        number += 1
        own = {"schema": schema, "payload": {"id": number}}
        with (folder / "public.known.jsonl").open("a") as file:
            file.write(json.dumps({"key": own, "value": own}) + "\n" + "no JSON\n")
        # What the target has no table for yet, in a schema that is made.
        for path in folder.glob("*.absent.jsonl"):
            path.unlink()
        (folder / f"s{number}.absent.jsonl").write_text('{"id": 1}\n')

    broken = Broken(target, stride=stride)
    broken.sweep(
        lambda dsn: receive(through(stream.config, "target", dsn)),
        send,
        is_terminated=is_terminated,
    )
    target.execute(f"create table feed_s{number}.absent (id int primary key)")
    stream.bring()
    assert stream.rows("select count(*), max(id) from feed_public.known") == [(number, number)]


@WAYS
@STRIDES
def test_replay(live, is_terminated, stride):
    def change() -> None:
        live.source.execute("insert into app.t (a) values (1)", "update app.t set a = a + 1")
        live.source.execute(
            "truncate app.t" if live.source.value("select count(*) > 9 from app.t") else "select"
        )
        live.receive()

    broken = Broken(live.target, stride=stride)
    broken.sweep(
        lambda dsn: replay(through(live.config, "target", dsn)),
        change,
        is_terminated=is_terminated,
    )
    live.follow()
    assert live.differences("t") == set()


@WAYS
@STRIDES
def test_export(live, tmp_path, is_terminated, stride):
    live.source.execute("insert into app.t (a) values (1)")
    live.follow()
    number = 0

    def change() -> None:
        nonlocal number
        number += 1
        live.source.execute("insert into app.t (a) values (1)")
        live.follow()

    def run(dsn: str) -> None:
        export = FileExport(live, tmp_path / "out", has_snapshot=True)
        export.run(config=through(live.config, "target", dsn))

    broken = Broken(live.target, stride=stride)
    broken.sweep(run, change, is_terminated=is_terminated)
    # The server may still be at the end of the last one, which holds the lock as long.
    ending = (
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name = 'pgrepl-export'"
    )
    wait_until(lambda: live.target.value(ending) == 0)
    FileExport(live, tmp_path / "out", has_snapshot=True).run()
    keys = [record["key"]["id"] for record in FileExport(live, tmp_path / "out").records("app.t")]
    assert sorted(keys) == list(range(1, number + 2))


#: Of these each connects to both sides, and says by its exit code what went wrong.
COMMANDS = [
    *("status", "doctor", "verify shop", "progress shop", "ddl install shop", "ddl status shop"),
    *(
        "ddl pending",
        "ddl retry shop",
        "pause shop app.t",
        "resume shop",
        "adopt shop",
    ),
    *("ddl uninstall shop", "export shop --once", "receive shop --once", "replay --once"),
    *("parked retry shop app.t", "ddl skip shop", "ddl disable shop", "ddl enable shop"),
    *("receive shop --change-plugin", "parked show shop app.t", "parked skip shop app.t --yes"),
]


@WAYS
@pytest.mark.parametrize(
    ("command", "side"),
    [
        ("parked list", "target"),
        ("drop shop --yes", "target"),
        *(
            pytest.param(command, side, marks=pytest.mark.soak)
            for command in COMMANDS
            for side in ("source", "target")
        ),
    ],
)
def test_command(live, tmp_path, side, is_terminated, command):
    """The program itself: whatever of a command runs before and after what others use."""
    live.source.execute("insert into app.t (a) values (1)")
    live.follow()
    more = ["--to", str(tmp_path / "out")] if command.startswith("export") else []
    slot = live.row.slot

    def run(dsn: str) -> None:
        given = {"dsn": dsn, "slot": slot, "schema": "{schema}_copy"}
        if side == "target":
            given["dsn"] = live.source.dsn()
        lines = ["[target]", f"dsn = {json.dumps(dsn if side == 'target' else live.target.dsn())}"]
        lines += ["[sources.shop]", *(f"{key} = {json.dumps(own)}" for key, own in given.items())]
        path = tmp_path / "broken.toml"
        path.write_text("\n".join(lines) + "\n")
        done = run_pgrepl(*command.split(), *more, "--config", path)
        assert "Traceback" not in done.stderr
        assert "unforeseen" not in done.stderr, done.stderr
        assert done.returncode != 1, done.stderr

    broken = Broken(getattr(live, side), stride=1)
    broken.sweep(run, lambda: None, is_terminated=is_terminated)
