"""A source that is well goes on while others are dead, copied again, full or without privileges.

All faults are held until the change of the one that is well has arrived.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.machine.proxy import Proxy
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.running.pipeline import Pipeline
from tests.support.waiting import wait_until

FAULTS = ("dead", "copied", "full", "revoked")
ROLE = "pgrepl_unhurt"


@pytest.fixture
def sources(source_cluster, target, make_database) -> dict[str, Pipeline]:
    made = {}
    for name in ("well", *FAULTS):
        pipeline = Pipeline(make_database(source_cluster, prefix=name), target)
        pipeline.source.execute("create table t (id int primary key, v text)")
        pipeline.copy()
        made[name] = pipeline
    return made


@pytest.fixture
def role(sources, target) -> Iterator[str]:
    """Return a role that may change all tables, but for that of one source."""
    schemas = ["replication", *(pipeline.schema() for pipeline in sources.values())]
    names = ", ".join(schemas)
    target.execute(
        f"create role {ROLE} login",
        f"grant all on schema {names} to {ROLE}",
        f"grant all on all tables in schema {names} to {ROLE}",
        f"grant all on all sequences in schema replication to {ROLE}",
        f"grant set on parameter session_replication_role to {ROLE}",
        f"grant execute on all functions in schema pg_catalog to {ROLE}",
        f"revoke all on {sources['revoked'].schema()}.t from {ROLE}",
    )
    yield ROLE
    target.execute(f"drop owned by {ROLE}", f"drop role {ROLE}")


def due(pipeline: Pipeline) -> None:
    """Have the source's table copied again by replay."""
    pipeline.target.execute(
        "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
        " select source_id, 'public', 't', 'a test' from replication.source"
        f" where name = '{pipeline.source.name}'"
    )


@contextmanager
def locked_on_source(pipeline: Pipeline) -> Iterator[None]:
    with pipeline.source.connect() as blocker:
        blocker.execute("begin; lock table t")
        yield
        blocker.execute("rollback")


def is_waited_for(pipeline: Pipeline) -> bool:
    return bool(
        pipeline.source.value(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock' and application_name like 'pgrepl%'"
        )
    )


def test_well_source_goes_on(sources, role, target, tmp_path):
    well = sources["well"]
    with Proxy(sources["dead"].source) as proxy, locked_on_source(sources["copied"]):
        dsns = {pipeline.source.name: pipeline.source.dsn() for pipeline in sources.values()}
        dsns[sources["dead"].source.name] = proxy.dsn
        config = write_config(
            tmp_path / "p.toml", target.dsn(user=role), dsns, '[spark]\nmaster = "local[1]"\n'
        )
        full = sources["full"]
        limited = write_config(
            tmp_path / "full.toml", target.dsn(), {full.source.name: full.source.dsn()}
        )
        with limited.open("a", encoding="utf-8") as file:
            file.write('max_spool = "1kB"\n')
        target.execute(
            "insert into replication.paused_source (source_id, paused_by) select source_id, 'test'"
            f" from replication.source where name = '{full.source.name}'"
        )
        receive = ("receive", full.source.name, "--once", "--config", limited)
        full.source.execute("insert into t select g, md5(g::text) from generate_series(1, 999) g")
        assert run_pgrepl(*receive).returncode == 0
        full.source.execute("insert into t values (0, 'more')")
        assert "max_spool allows 1024" in run_pgrepl(*receive).stderr
        sources["revoked"].source.execute("insert into t values (1, 'one')")
        sources["revoked"].receive()
        due(sources["dead"])
        due(sources["copied"])
        # Neither the connections there are nor those to come hear anything.
        proxy.freeze(is_dark=True)
        with subprocess.Popen([*COMMAND, "replay", "--config", str(config)]) as service:
            wait_until(lambda: is_waited_for(sources["copied"]))
            wait_until(sources["revoked"].parked)
            for number in range(3):
                well.source.execute(f"insert into t values ({number}, 'x')")
                well.receive()
                wait_until(lambda: well.differences() == [])
            # Everything was as bad to the end.
            assert is_waited_for(sources["copied"])
            assert full.differences() == sources["revoked"].differences() == ["t"]
            assert target.value("select count(*) from replication.resync_due") == 2
            proxy.thaw()
            service.terminate()
