"""A folder whose files go away while it is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import SourceError
from pgrepl.receiver.files.stream import FilesStream


class Intake(SimpleNamespace):
    """Takes records of one file, and keeps them."""

    has_changes = has_moved = False

    def __init__(self):
        super().__init__(places=[("t.jsonl", 0)], taken=[], next=0)

    def attach(self, _):
        """Nothing leaves."""

    def settle(self):
        """Nothing waits."""

    def next_offset(self, _):
        return self.next

    def take(self, record):
        self.taken.append(record.value.value)

    def pass_to(self, _, offset):
        self.next = offset


def stream_of(tmp_path, intake, wakeup, *, is_once) -> FilesStream:
    (tmp_path / "pgrepl.toml").write_text(
        f'[target]\ndsn = "dbname=t"\n[sources.feed]\nkind = "files"\npath = "{tmp_path}"\n'
    )
    around: Any = SimpleNamespace(
        settings=SimpleNamespace(in_flight_bytes=1),
        wakeup=wakeup,
        notifier=SimpleNamespace(alive=lambda: None),
    )
    return FilesStream(
        load_config(tmp_path / "pgrepl.toml").source("feed"),
        intake,
        {"t.jsonl": tmp_path / "t.jsonl"},
        list,
        around,
        is_once=is_once,
    )


WRITER: Any = SimpleNamespace(pending_bytes=0, raise_error=lambda: None, is_idle=True)


def test_file_that_vanishes_while_it_is_read_is_an_error_of_the_source(tmp_path):
    stream = stream_of(tmp_path, Intake(), SimpleNamespace(is_stopping=False), is_once=True)
    with pytest.raises(SourceError, match=r"cannot read .*t\.jsonl: No such file"):
        stream.run(WRITER)


def test_file_that_is_replaced_while_it_is_read_is_not_read_on(tmp_path, caplog):
    path, intake = tmp_path / "t.jsonl", Intake()
    path.write_text('{"id": 1}\n')

    class Wakeup:
        is_stopping = False
        count = 0

        def wait(self, _):
            self.count += 1
            if self.count == 1:
                # It begins as the other did, and is longer.
                (tmp_path / "new").write_text('{"id": 1}\n{"id": 2}\n')
                (tmp_path / "new").rename(path)
            self.is_stopping = self.count == 3

    stream_of(tmp_path, intake, Wakeup(), is_once=False).run(WRITER)
    assert intake.taken == [{"id": 1}]
    assert "t.jsonl was replaced while it was read" in caplog.text
