"""Tables whose long values weigh more than their rows."""

from __future__ import annotations

import pytest

from pgrepl.basebackup.dry_run import plan_copy
from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.rows.parts import plan_parts
from pgrepl.basebackup.snapshot import keep_new_snapshot
from pgrepl.catalog.tables import read_tables
from pgrepl.config.dsn import Side
from pgrepl.config.rules import Rules
from tests.support.running.copying import Recorder, copy, make_config
from tests.support.running.replaying import checksums

ROWS = 600
VALUE_BYTES = 100_000
JOBS = 2


@pytest.fixture
def documents(source):
    """Make a table of a few blocks, of which nearly everything is stored apart."""
    source.execute(
        "create table documents (id int primary key, body text)",
        "alter table documents alter column body set storage external",
        f"insert into documents select g, repeat(md5(g::text), {VALUE_BYTES // 32})"
        f" from generate_series(1, {ROWS}) g",
    )
    return source


def test_dry_run_weighs_long_values_and_the_copy_cuts_by_them(documents, target):
    config = make_config(target, documents)
    options = CopyOptions(jobs=JOBS)
    plan = plan_copy(config, config.sources[documents.name], options, default_jobs=JOBS)
    (planned,) = plan.tables
    assert planned.size_bytes == pytest.approx(ROWS * VALUE_BYTES, rel=0.1)
    assert planned.parts >= JOBS
    assert plan.seconds_estimate > 0.5

    counts: list[int] = []
    watcher = Recorder({"keys": lambda: counts.extend(rows_by_part(target))})
    (table,) = copy(target, documents, watcher, jobs=JOBS).tables
    assert len(counts) == planned.parts
    assert sum(counts) == ROWS
    assert min(counts) > 0
    assert table.byte_count == pytest.approx(planned.size_bytes, rel=0.1)
    assert checksums(target, f"{documents.name}_public") == checksums(documents, "public")


def rows_by_part(target):
    return [count for (count,) in target.rows("select row_count from replication.copy_part")]


def test_blocks_are_those_of_the_rows_alone(documents):
    documents.execute("create table parted (id int) partition by list (id)", "create table bare ()")
    with documents.connect() as connection:
        tables = {table.name: table for table in read_tables(connection, Rules())}
    keeper = keep_new_snapshot(documents.endpoint(Side.SOURCE))
    with keeper.connection:
        sizes = keeper.sizes(tables.values())
    found = sizes[tables["documents"].oid]
    last_block = documents.value("select max((ctid::text::point)[0])::int from documents")
    assert found.block_count == last_block + 1
    assert sizes[tables["bare"].oid].block_count == sizes[tables["parted"].oid].size_bytes == 0
    assert {part.table for part in plan_parts(tables.values(), sizes, JOBS)} == {
        "documents",
        "bare",
    }
