"""A table that the role may not read is named with its remedy, and nothing else stops for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgrepl.ddl_capture import Applier, install
from tests.spark.ddl.test_resync_after_ddl import due, make_resyncer
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import slot_of
from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")


@dataclass
class Closed:
    """A copied source with a table that came later, and that pgrepl's role may not read."""

    pipeline: Pipeline
    role: str
    config: Path

    def run(self, *arguments: str, code: int):
        """Run the program as the role."""
        done = run_pgrepl(*arguments, "--config", self.config)
        assert done.returncode == code, (done.stdout, done.stderr)
        return done


def hint_of(done) -> str:
    """Return what the error at the end of a run with --json says about the remedy."""
    return str(json.loads(done.stderr.splitlines()[-1])["hint"])


@pytest.fixture
def closed(source, target, tmp_path) -> Iterator[Closed]:
    role = f"{source.name}_reader"
    source.execute(
        "create table seen (id int primary key, note text)",
        "insert into seen select i, 'x' from generate_series(1, 100) i",
        "create sequence counted",
        f"create role {role} login replication",
        f"grant select on seen, counted to {role}",
    )
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "create schema later",
        "create table later.hidden (id int primary key)",
        "insert into later.hidden values (1)",
    )
    pipeline.apply()
    config = write_config(
        tmp_path / "pgrepl.toml",
        target.dsn(),
        {source.name: source.dsn(user=role)},
        '[spark]\nmaster = "local[2]"',
    )
    with config.open("a") as file:
        file.write(f'slot = "{slot_of(source)}"\n')
    yield Closed(pipeline, role, config)
    source.execute(f"drop owned by {role}", f"drop role {role}")


def test_verify_compares_the_others_and_says_what_opens_it(closed):
    name = closed.pipeline.source.name
    closed.pipeline.source.execute(f"revoke select on counted from {closed.role}")
    done = closed.run("verify", name, "--json", code=60)
    (report,) = json.loads(done.stdout)["sources"]
    tables = {table["name"]: table for table in report["tables"]}
    assert tables["public.seen"]["source_rows"] == 100
    assert tables["later.hidden"]["compared_count"] == 0
    assert report["unreadable"] == ["later.hidden", "public.counted"]
    assert not report["has_differences"]
    assert f'GRANT USAGE ON SCHEMA "later" TO "{closed.role}"' in hint_of(done)
    assert f'GRANT SELECT ON "later"."hidden" TO "{closed.role}"' in hint_of(done)
    assert f'GRANT SELECT ON SEQUENCE "public"."counted" TO "{closed.role}"' in hint_of(done)
    # Row by row all is equal where nobody asks for it.
    closed.run("verify", name, "public.*", code=0)


def test_status_names_it_with_its_remedy(closed):
    done = closed.run("status", "--json", code=20)
    (source,) = json.loads(done.stdout)["sources"]
    (problem,) = source["problems"]
    assert (problem["kind"], problem["exit_code"]) == ("unreadable", 20)
    assert "later.hidden" in problem["message"]
    assert f'GRANT SELECT ON "later"."hidden" TO "{closed.role}"' in problem["hint"]
    source = closed.pipeline.source
    source.execute(
        f"grant usage on schema later to {closed.role}",
        f"grant select on later.hidden to {closed.role}",
    )
    closed.run("status", code=0)
    source.execute("alter table later.hidden enable row level security")
    done = closed.run("status", code=20)
    assert f'ALTER ROLE "{closed.role}" BYPASSRLS' in done.stdout


def test_resync_copies_the_others_and_says_what_opens_it(closed):
    name = closed.pipeline.source.name
    done = closed.run("resync", name, "*.*", "--json", code=20)
    report = json.loads(done.stdout)
    assert [table["table"] for table in report["tables"]] == ["public.seen"]
    assert report["unreadable"] == ["later.hidden"]
    assert f'GRANT SELECT ON "later"."hidden" TO "{closed.role}"' in hint_of(done)
    done = closed.run("resync", name, "later.hidden", code=20)
    assert "later.hidden" in done.stderr
    assert closed.pipeline.parked() == []
    assert closed.pipeline.differences() == []


def test_automatic_resync_copies_the_others_and_says_what_opens_it(closed):
    pipeline = closed.pipeline
    # One transaction marks both, so that they are copied together.
    with pipeline.source.connect() as connection, connection.transaction():
        connection.execute("alter table seen add luck float8 not null default random()")
        connection.execute("alter table later.hidden add luck float8 not null default random()")
    pipeline.receive()
    pipeline.resync = make_resyncer(pipeline, user=closed.role)
    result = pipeline.replay()
    assert result.error is None
    assert set(due(pipeline)) == {"hidden"}
    assert pipeline.differences() == []
    assert pipeline.parked() == []
    done = closed.run("status", "--json", code=20)
    (source,) = json.loads(done.stdout)["sources"]
    told = {problem["kind"]: problem["message"] for problem in source["problems"]}
    assert f'GRANT SELECT ON "later"."hidden" TO "{closed.role}"' in told["resync-due"]
    pipeline.source.execute(
        f"grant usage on schema later to {closed.role}",
        f"grant select on later.hidden to {closed.role}",
    )
    pipeline.replay()
    assert due(pipeline) == {}
    assert pipeline.differences("later") == []
