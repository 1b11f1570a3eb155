"""What breaks in the middle of the data: a clear error, and the same command repairs it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest

from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.run import copy_source
from pgrepl.config.dsn import Dsn
from pgrepl.errors import SourceUnavailable, TargetUnavailable
from tests.support.machine.proxy import Proxy
from tests.support.machine.small_disk import database_on_small_disk, filled
from tests.support.running.copying import Recorder, copy, make_config, state_of
from tests.support.running.replaying import checksums

ROWS = """
create schema app;
create table app.big (id integer primary key, note text not null);
create table app.small (id integer primary key);
insert into app.big select g, repeat(md5(g::text), 8) from generate_series(1, 20000) g;
insert into app.small select generate_series(1, 10);
"""


def assert_repaired(source, target):
    assert state_of(target, source) == "copying"
    assert copy(target, source).outcome == "resumed"
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


@pytest.mark.parametrize("side", ["source", "target"])
def test_connection_cut_in_the_middle_of_copy(source, target, side):
    source.execute(ROWS)
    config = make_config(target, source)
    chosen = config.sources[source.name]
    with Proxy(source if side == "source" else target) as proxy:
        # Nothing but the rows of the big table is so much.
        proxy.cut_after(1_000_000)
        if side == "source":
            chosen = replace(chosen, dsn=Dsn(proxy.dsn))
            doing = "cannot read app.big"
        else:
            config = replace(config, target=replace(config.target, dsn=Dsn(proxy.dsn)))
            doing = "cannot write the copy of app.big"
        with pytest.raises((SourceUnavailable, TargetUnavailable), match=doing):
            copy_source(config, chosen, CopyOptions(), Recorder())
    assert_repaired(source, target)


def test_disk_full_in_the_middle_of_copy(source, target_cluster):
    source.execute(ROWS)
    with (
        database_on_small_disk(target_cluster, 64) as (target, place),
        ExitStack() as stack,
    ):
        fill = Recorder({"data": lambda: stack.enter_context(filled(place, 512 * 1024))})
        with pytest.raises(
            TargetUnavailable, match=r"cannot write the copy of app\.\w+: .*No space left on device"
        ) as caught:
            copy(target, source, fill)
        assert caught.value.exit_code == 30
        assert caught.value.hint is not None
        assert caught.value.hint.startswith("Free disk space")
        stack.close()
        assert copy(target, source).outcome == "resumed"
        assert checksums(target, f"{source.name}_app") == checksums(source, "app")
