"""Views that can be made on top of the copied tables, for ``--views``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.basebackup.schema.needed_objects import LeftOut, NeededObject, read_needed
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.naming import TableSelection
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["SourceView", "Views", "read_views"]

# What has rows: a view can only be made when all of these that it needs are there.
_RELATIONS = frozenset("rpfvm")

_NOT_ASKED_FOR = "only tables are replicated; --views makes it"


@dataclass(frozen=True, slots=True)
class SourceView:
    """A row of ``sql/source_views.sql``."""

    oid: int
    schema: str
    name: str
    is_materialized: bool
    #: Whether a materialized view can be read; one that cannot stays so.
    is_populated: bool

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    @property
    def kind(self) -> str:
        """What people call it."""
        return "materialized view" if self.is_materialized else "view"


@dataclass(frozen=True, slots=True)
class Views:
    """The views to make, what they need, and those that cannot be made."""

    chosen: Sequence[SourceView] = ()
    needed: Sequence[NeededObject] = ()
    left_out: Sequence[LeftOut] = ()


def read_views(
    connection: Connection,
    tables: Sequence[SourceTable],
    *selections: TableSelection,
    is_wanted: bool,
    with_code: bool,
) -> Views:
    """Read the views that every selection takes in; those on these tables alone can be made."""
    with connection.cursor(row_factory=class_row(SourceView)) as cursor:
        found = cursor.execute(load_query("pgrepl.basebackup", "source_views")).fetchall()
    candidates = [view for view in found if all(s.matches(*view.key) for s in selections)]
    if not is_wanted:
        return Views(
            left_out=[LeftOut(v.kind, ".".join(v.key), _NOT_ASKED_FOR) for v in candidates]
        )
    omitted = _read_omitted(connection, tables)
    needs = {
        view: read_needed(connection, [view.oid], with_code=with_code)
        for view in candidates
        if view.oid not in omitted
    }
    chosen, missing = choose_views(needs, {table.key for table in tables})
    return Views(
        chosen,
        [item for view in chosen for item in needs[view]],
        [
            LeftOut(view.kind, ".".join(view.key), f"{'.'.join(lack)} is not replicated")
            for view, lack in missing.items()
        ]
        + [
            LeftOut(view.kind, ".".join(view.key), f"rules omit {omitted[view.oid]}")
            for view in candidates
            if view.oid in omitted
        ],
    )


def _read_omitted(connection: Connection, tables: Sequence[SourceTable]) -> Mapping[int, str]:
    """Return the views that show columns which the target does not have, each with one of them."""
    columns = [(table.oid, name) for table in tables for name in table.omitted]
    if not columns:
        return {}
    rows = connection.execute(
        load_query("pgrepl.basebackup", "views_of_columns"),
        {"tables": [oid for oid, _ in columns], "columns": [name for _, name in columns]},
    ).fetchall()
    return dict(rows)


def choose_views(
    needs: Mapping[SourceView, Sequence[NeededObject]], tables: set[tuple[str, str]]
) -> tuple[list[SourceView], dict[SourceView, tuple[str, str]]]:
    """Return the views that can be made, and for each other one a relation that it lacks. Pure."""
    chosen = list(needs)
    missing: dict[SourceView, tuple[str, str]] = {}
    while True:
        there = tables | {view.key for view in chosen}
        lacking = {
            view: (item.schema, item.name)
            for view in chosen
            for item in needs[view]
            if item.catalog == "pg_class"
            and item.extension is None
            and item.relation_kind in _RELATIONS
            and (item.schema, item.name) not in there
        }
        if not lacking:
            return chosen, missing
        missing |= lacking
        # A view that stood on one of these falls with it.
        chosen = [view for view in chosen if view not in lacking]
