"""The configuration file of a service that runs."""

from __future__ import annotations

import logging
import queue

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.reload import watch_config
from pgrepl.config.model import Config

TEXT = "[target]\ndsn='dbname=w'\n[sources.shop]\ndsn='dbname=a'\n"


def test_change_before_anybody_watched_is_not_missed(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    path = tmp_path / "pgrepl.toml"
    path.write_text(TEXT)
    invocation = Invocation(path, "text")
    config = invocation.load_config()
    path.write_text(TEXT.replace("dbname=a", "dbname=b"))
    taken: queue.Queue[Config] = queue.Queue()
    with watch_config(invocation, config, taken.put):
        assert taken.get(timeout=60).source("shop").endpoint.dsn.dbname == "b"
    # What is as it was read is no news.
    with watch_config(invocation, invocation.load_config(), taken.put):
        pass
    assert taken.empty()
    assert "nothing changed" not in caplog.text
