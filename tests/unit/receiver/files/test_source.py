"""A folder whose files go away while it is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import SourceError
from pgrepl.receiver.files.stream import FilesStream


def test_file_that_vanishes_while_it_is_read_is_an_error_of_the_source(tmp_path):
    (tmp_path / "pgrepl.toml").write_text(
        f'[target]\ndsn = "dbname=t"\n[sources.feed]\nkind = "files"\npath = "{tmp_path}"\n'
    )
    intake: Any = SimpleNamespace(
        places=[("t.jsonl", 0)],
        attach=lambda _: None,
        settle=lambda: None,
        has_changes=False,
        has_moved=False,
    )
    idle = SimpleNamespace(pending_bytes=0, raise_error=lambda: None, is_idle=True)
    around: Any = SimpleNamespace(
        settings=SimpleNamespace(in_flight_bytes=1),
        wakeup=SimpleNamespace(is_stopping=False),
        notifier=SimpleNamespace(alive=lambda: None),
    )
    stream = FilesStream(
        load_config(tmp_path / "pgrepl.toml").source("feed"),
        intake,
        {"t.jsonl": tmp_path / "t.jsonl"},
        list,
        around,
        is_once=True,
    )
    with pytest.raises(SourceError, match=r"cannot read .*t\.jsonl: No such file"):
        stream.run(idle)  # type: ignore[arg-type]
