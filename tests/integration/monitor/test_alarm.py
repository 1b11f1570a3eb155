"""An alert is told once, and once when it is over, whoever runs and however often it starts."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pgrepl.config.file import load_config
from pgrepl.monitor import Recorder
from pgrepl.status import read_status
from tests.support.running.backlog import die_at
from tests.support.running.streaming import Streaming

APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"


class Told:
    """What a command of the user's was told."""

    def __init__(self, streaming: Streaming) -> None:
        self.streaming = streaming
        self.path = streaming.folder / "told"
        words = [sys.executable, "-c", APPEND, str(self.path)]
        text = streaming.config.read_text(encoding="utf-8")
        text += f"[alerts]\ncommand = {json.dumps(words)}\n"
        streaming.config.write_text(text, encoding="utf-8")

    def look(self, recorder: Recorder | None = None) -> Recorder:
        config = load_config(self.streaming.config)
        recorder = recorder or Recorder()
        recorder._next_at = 0.0
        recorder.take(read_status(config, list(config.sources.values())), config)
        return recorder

    def take(self) -> list[tuple[str, str, str]]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        self.path.unlink(missing_ok=True)
        found = [json.loads(line) for line in lines]
        return [(told["state"], told["kind"], told["subject"]) for told in found]


@pytest.fixture
def told(streaming: Streaming) -> Told:
    return Told(streaming)


def test_killed_after_it_told_it_tells_again_and_then_no_more(streaming, told):
    park(streaming)
    die_at("monitor.told", told.look)
    assert told.take() == [("firing", "parked", "public.t")]
    recorder = told.look()
    assert told.take() == [("firing", "parked", "public.t")]
    told.look(recorder).close()
    assert told.take() == []


def park(streaming: Streaming) -> None:
    streaming.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, reason,"
        f" sqlstate) values ({streaming.source_id}, 'public', 't', 'a reason', '22000')"
    )


def test_parked_table_is_told_once_also_after_a_restart_and_by_another(streaming, told):
    recorder = told.look()
    assert told.take() == []
    park(streaming)
    told.look(recorder)
    assert told.take() == [("firing", "parked", "public.t")]
    told.look(recorder)
    other = told.look()
    recorder.close()
    told.look(other)
    assert told.take() == []
    streaming.target.execute("delete from replication.parked_table")
    told.look(other)
    assert told.take() == [("over", "parked", "public.t")]
    told.look(other)
    assert told.take() == []
    assert streaming.target.rows("select from replication.alert where kind = 'parked'") == []
    other.close()


def test_alert_that_nobody_could_be_told_is_told_later(streaming, told: Told):
    park(streaming)
    moved = Path(f"{told.path}-away")
    told.path.mkdir()
    recorder = told.look()
    assert streaming.target.rows(
        "select kind, told_at from replication.alert where kind = 'parked'"
    ) == [("parked", None)]
    told.path.rename(moved)
    # Not at once: it failed a moment ago.
    told.look(recorder)
    assert told.take() == []
    recorder.close()
    other = told.look()
    assert told.take() == [("firing", "parked", "public.t")]
    other.close()


class Hook:
    """A webhook that answers as it is told to, and what it got."""

    def __init__(self) -> None:
        self.code = 500
        self.got: list[str] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hook.code < 300:
                    hook.got.append(json.loads(body)["state"])
                self.send_response(hook.code)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook(told: Told) -> Iterator[Hook]:
    hook = Hook()
    with told.streaming.config.open("a", encoding="utf-8") as file:
        file.write(f'webhook = "http://127.0.0.1:{hook.server.server_port}/"\n')
    yield hook
    hook.close()


@pytest.fixture
def _at_once(monkeypatch):
    monkeypatch.setattr("pgrepl.monitor.alarm._FIRST_S", 0.0)


@pytest.mark.usefixtures("_at_once")
def test_command_is_told_once_however_often_the_webhook_fails(streaming, told, hook):
    park(streaming)
    recorder = told.look()
    assert told.take() == [("firing", "parked", "public.t")]
    told.look(recorder)
    assert (told.take(), hook.got) == ([], [])
    hook.code = 204
    told.look(recorder)
    assert (told.take(), hook.got) == ([], ["firing"])
    hook.code = 500
    streaming.target.execute("delete from replication.parked_table")
    told.look(recorder)
    assert told.take() == [("over", "parked", "public.t")]
    hook.code = 204
    told.look(recorder)
    told.look(recorder)
    assert (told.take(), hook.got) == ([], ["firing", "over"])
    # Over before the webhook heard of it: who did hear is told so.
    hook.code = 500
    park(streaming)
    told.look(recorder)
    streaming.target.execute("delete from replication.parked_table")
    hook.code = 204
    told.look(recorder)
    told.look(recorder)
    assert told.take() == [("firing", "parked", "public.t"), ("over", "parked", "public.t")]
    assert hook.got == ["firing", "over"]
    assert streaming.target.rows("select from replication.alert where kind = 'parked'") == []
    recorder.close()
