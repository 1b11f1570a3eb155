"""Schema changes while two sources are written to."""

from __future__ import annotations

from tests.support.following import Following
from tests.support.workload import SCHEMAS, TABLES, writers

CHANGES = (
    "alter table app.accounts add column email text",
    "create index on app.history (account)",
    "alter table app.accounts add rank int; update app.accounts set rank = 4 where id < 9",
    "create table app.extra as select id, balance from app.accounts where id <= 50",
    "alter table app.accounts rename column email to mail",
    "create table app.moves_2 partition of app.moves for values in (2)",
    "alter table app.accounts alter balance type numeric(30, 4)",
    "alter table app.moves detach partition app.moves_2; drop table app.moves_2",
    "alter table app.accounts drop column mail, add constraint positive check (id > 0)",
    "drop table app.extra",
)


def test_tables_equal_the_sources_after_changes_under_load(source_cluster, target, make_database):
    followings = []
    for name in ("shop", "crm"):
        source = make_database(source_cluster, prefix=name)
        followings.append(Following(source, target, name=name, prefix=f"{name}_").begin())
    for following in followings:
        following.run(TABLES.replace("(1, 3000)", "(1, 30)"))
    one, two = followings
    with writers(one.source), writers(two.source):
        for change in CHANGES:
            one.source.execute(change)
            two.source.execute(change)
    for following in followings:
        following.follow()
        assert following.problems(*SCHEMAS) == []
        assert following.pending() == []
