"""What is wrong with publications is noticed, said by doctor, and put right."""

from __future__ import annotations

import psycopg
import pytest

from pgrepl.config.dsn import Side
from pgrepl.doctor.checks.source.publication_checks import check_publications
from pgrepl.doctor.finding import Status
from pgrepl.doctor.source_facts import read_source
from pgrepl.postgres.connect import connect
from pgrepl.publications.tables import read_publications
from tests.support.running.publishing import KEYED, members, noted, publish, source_of


def test_doctor_says_what_is_missing_and_its_statements_fix_it(source):
    source.execute(KEYED, "create table keyless (id int)")
    config = source_of(source)

    def judge():
        with connect(source.endpoint(Side.SOURCE), "test") as connection:
            facts = read_source(connection, config)
            return check_publications(config, facts, read_publications(connection, config))

    def follow(finding):
        with connect(source.endpoint(Side.SOURCE), "test") as connection:
            for statement in finding.remedy.sql:
                connection.execute(statement.encode())

    assert (judge().status, judge().message) == (Status.OK, "basebackup publishes the tables")
    source.execute(f"select pg_create_logical_replication_slot('{config.slot}', 'pgoutput')")
    missing = judge()
    assert (missing.status, missing.objects) == (Status.FAILURE, ("public.keyless", "public.t"))
    follow(missing)
    assert judge().status is Status.OK
    source.execute("drop event trigger pgrepl_publications_end")
    assert "no event trigger keeps the publications" in judge().message
    source.execute("alter table t drop constraint t_pkey")
    refused = judge()
    assert (refused.status, refused.objects) == (Status.FAILURE, ("public.t",))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        source.execute("update t set note = 'two'")
    follow(refused)
    source.execute("update t set note = 'two'")
    assert judge().status is Status.OK


@pytest.mark.parametrize(
    "change",
    [
        "alter publication {} set (publish = 'insert')",
        "alter publication {} set (publish_via_partition_root = true)",
        "alter publication {}_inserts set (publish = 'insert')",
        "alter publication {} set table t (id)",
        "alter publication {} set table t where (id > 5)",
    ],
)
def test_publication_that_was_changed_is_noticed_and_made_right(published, change):
    def look():
        with connect(published.endpoint(Side.SOURCE), "test") as connection:
            return read_publications(connection, config).unpublished(config.selection)

    config = source_of(published)
    assert look() == []
    published.execute(change.format(f"pgrepl_{published.name}"))
    assert [table.name for table in look()] == ["t"]
    publish(published)
    assert (look(), members(published)) == ([], ["t"])
    # What it did not send meanwhile, nobody knows.
    assert [name for name, _ in noted(published)] == ["t"]
    published.execute("update t set note = 'two'")


def test_doctor_says_that_nobody_counts_what_is_not_sent(published):
    def judge():
        with connect(published.endpoint(Side.SOURCE), "test") as connection:
            config = source_of(published)
            found = read_publications(connection, config)
            return check_publications(config, read_source(connection, config), found)

    published.execute(f"alter database {published.name} set track_counts = off")
    assert judge().status is Status.OK
    published.execute("create table keyless (id int)")
    finding = judge()
    assert (finding.status, finding.objects) == (Status.FAILURE, ("public.keyless",))
    published.execute(*finding.remedy.sql)
    assert judge().status is Status.OK
