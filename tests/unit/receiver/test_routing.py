"""Which bucket the changes of a table go to."""

from __future__ import annotations

from pgrepl.config.naming import TableSelection
from pgrepl.decoding.wal2json import Wal2JsonStream
from pgrepl.receiver.routing import CatalogueTable, Router
from pgrepl.store.spool.spool_format import bucket_of
from tests.support.messages.lines import begin

BEGIN = begin(7)


class Source:
    """A catalogue that can change, and counts how often it is asked."""

    def __init__(self, **roots: str) -> None:
        self.roots = roots
        self.reads = 0

    def read(self) -> list[CatalogueTable]:
        self.reads += 1
        return [
            CatalogueTable("public", table, "public", root, False, [], [], [], 3)
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
    assert router.route(("public", "leaf"), BEGIN).bucket == bucket_of("db", "public", "root")


def test_partition_is_selected_by_its_root():
    router = Source(leaf="root", root="root").router(exclude=("public.root",))
    assert router.route(("public", "leaf"), BEGIN).bucket is None


def test_source_is_asked_once_for_tables_it_knows_and_once_for_each_it_does_not():
    source = Source(a="a", b="b")
    router = source.router()
    for table in ("a", "b", "gone", "gone", "a"):
        router.route(("public", table), BEGIN)
    assert source.reads == 2


def test_bucket_that_the_target_remembers_holds():
    source = Source(leaf="root")
    assert source.router(leaf=17).route(("public", "leaf"), BEGIN).bucket == 17


def test_new_buckets_are_told_once():
    router = Source(a="a").router()
    router.route(("public", "a"), BEGIN)
    assert router.take_fresh() == {("public", "a"): bucket_of("db", "public", "a")}
    assert router.take_fresh() == {}


def test_bucket_changes_behind_ddl_only():
    source = Source(leaf="leaf")
    router = source.router()
    own, root = (bucket_of("db", "public", name) for name in ("leaf", "root"))
    assert router.route(("public", "leaf"), BEGIN).bucket == own
    source.roots = {"leaf": "root"}
    router.route(("public", "unknown"), BEGIN)
    assert router.route(("public", "leaf"), BEGIN).bucket == own
    router.take_fresh()
    router.forget()
    assert router.route(("public", "leaf"), BEGIN).bucket == root
    assert router.take_fresh() == {("public", "leaf"): root}


def test_warning_about_one_table_asks_the_source_once():
    source = Source(a="a")
    router = source.router()
    for _ in range(3):
        assert router.lost_table('public"."a', BEGIN) == ("public", "a")
        assert router.lost_table('public"."gone', BEGIN) == ("public", "gone")
    assert source.reads == 2


def test_loss_in_an_unknown_transaction_may_be_that_of_any_table_that_had_the_name():
    router = Source(leaf="root", other="other", away="root").router(
        ("public.root", "public.other", "public.leaf"), other=5
    )
    said = 'no tuple identifier for UPDATE in table "public"."{}"'
    asked = {
        name: router.may_lose("WARNING", said.format(name)) for name in ("leaf", "other", "away")
    }
    assert asked == {"leaf": False, "other": True, "away": True}


def test_changes_from_before_a_materialized_view_took_the_name_are_those_of_a_table():
    def route(named_xid: int) -> int | None:
        view = CatalogueTable("public", "v", "public", "v", True, [], [], [], named_xid)
        source = Source()
        router = source.router()
        router._read_catalogue = lambda: [view]
        return router.route(("public", "v"), BEGIN).bucket

    # The transaction in hand is number 7; what it did before it made the view may be a table's.
    is_dropped = {xid: route(xid) is None for xid in (3, 6, 7, 8, 2**32 - 5)}
    assert is_dropped == {3: True, 6: True, 7: False, 8: False, 2**32 - 5: True}


def test_partition_that_has_another_name_by_now_is_selected_by_what_is_known_of_it():
    source = Source()
    patterns = TableSelection.of(["public.root"])

    def router(*replicated: tuple[str, str]) -> Router:
        return Router(
            decoder=Wal2JsonStream(),
            db="db",
            selection=patterns,
            codec="utf-8",
            assigned={},
            replicated=replicated,
            read_catalogue=source.read,
        )

    leaf, root = ("public", "leaf"), ("public", "root")
    assert router().route(leaf, BEGIN).bucket is None
    assert router(leaf).route(leaf, BEGIN).bucket is not None
    learning = router()
    learning.learn(leaf, root)
    assert learning.route(leaf, BEGIN).bucket == bucket_of("db", *root)
    assert learning.take_fresh().keys() == {leaf}
    # What has the name now had it before the transaction in hand.
    source.roots["leaf"] = "leaf"
    assert router(leaf).route(leaf, BEGIN).bucket is None
