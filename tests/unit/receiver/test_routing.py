"""Which bucket the changes of a table go to."""

from __future__ import annotations

from pgrepl.config.naming import TableSelection
from pgrepl.decoding.wal2json import Wal2JsonStream
from pgrepl.receiver.routing import CatalogueTable, Router
from pgrepl.store.spool.spool_format import bucket_of


class Source:
    """A catalogue that can change, and counts how often it is asked."""

    def __init__(self, **roots: str) -> None:
        self.roots = roots
        self.reads = 0

    def read(self) -> list[CatalogueTable]:
        self.reads += 1
        return [
            CatalogueTable("public", table, "public", root, False, [], [], [])
            for table, root in self.roots.items()
        ]

    def router(self, exclude: tuple[str, ...] = (), **assigned: int) -> Router:
        return Router(
            decoder=Wal2JsonStream(),
            db="db",
            selection=TableSelection.of(["*.*"], exclude),
            codec="utf-8",
            assigned={("public", table): bucket for table, bucket in assigned.items()},
            read_catalogue=self.read,
        )


def test_partition_goes_with_its_root():
    router = Source(leaf="root", root="root").router()
    assert router.route(("public", "leaf")).bucket == bucket_of("db", "public", "root")


def test_partition_is_selected_by_its_root():
    router = Source(leaf="root", root="root").router(exclude=("public.root",))
    assert router.route(("public", "leaf")).bucket is None


def test_source_is_asked_once_for_tables_it_knows_and_once_for_each_it_does_not():
    source = Source(a="a", b="b")
    router = source.router()
    for table in ("a", "b", "gone", "gone", "a"):
        router.route(("public", table))
    assert source.reads == 2


def test_bucket_that_the_target_remembers_holds():
    source = Source(leaf="root")
    assert source.router(leaf=17).route(("public", "leaf")).bucket == 17


def test_new_buckets_are_told_once():
    router = Source(a="a").router()
    router.route(("public", "a"))
    assert router.take_fresh() == {("public", "a"): bucket_of("db", "public", "a")}
    assert router.take_fresh() == {}


def test_bucket_changes_behind_ddl_only():
    source = Source(leaf="leaf")
    router = source.router()
    own, root = (bucket_of("db", "public", name) for name in ("leaf", "root"))
    assert router.route(("public", "leaf")).bucket == own
    source.roots = {"leaf": "root"}
    router.route(("public", "unknown"))
    assert router.route(("public", "leaf")).bucket == own
    router.take_fresh()
    router.forget()
    assert router.route(("public", "leaf")).bucket == root
    assert router.take_fresh() == {("public", "leaf"): root}


def test_warning_about_one_table_asks_the_source_once():
    source = Source(a="a")
    router = source.router()
    for _ in range(3):
        assert router.lost_table('public"."a') == ("public", "a")
        assert router.lost_table('public"."gone') == ("public", "gone")
    assert source.reads == 2
