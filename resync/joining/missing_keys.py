"""Foreign keys to and from a table that joined, which DDL could not make while it was not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgrepl.catalog.tables import SourceTable
from pgrepl.config.naming import shown_name
from pgrepl.ddl_capture.apply.structure.reconcile import plan_steps
from pgrepl.ddl_capture.apply.structure.reconcile_step import Step
from pgrepl.ddl_capture.apply.target_catalog import read_definitions, read_relations
from pgrepl.ddl_capture.missed import read_names
from pgrepl.ddl_capture.omission import on_target
from pgrepl.ddl_capture.policy.expectation import without
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.joining.late_keys import late_key
from pgrepl.resync.sides import Sides
from pgrepl.store.skipped_code import read_skipped_of
from pgrepl.store.tables.copy_work import LeftOutRow, add_left_out, read_left_out

__all__ = ["note_missing_keys"]


def note_missing_keys(sides: Sides, table: SourceTable) -> None:
    """Name those of a table and of others to it, so that they are made with the late ones.

    Where anything else differs DDL is still to come, and makes them itself.
    """
    with translated(sides.source.endpoint, "cannot read the foreign keys"):
        linked: Sequence[tuple[str, str]] = sides.source_session.execute(
            load_query("pgrepl.resync", "linked_tables"), {"oids": [table.oid]}
        ).fetchall()
        reported = read_definitions(sides.source_session, linked)
        wanted = {key: on_target(own, sides.source.rules) for key, own in reported.items()}
        names = read_names(sides.source_session, sides.target, sides.row)
    with translated(sides.endpoint, "cannot look for foreign keys"):
        schemas = names.schemas
        places = {key: (schemas[key[0]], key[1]) for key in wanted if key[0] in schemas}
        found = read_definitions(sides.target, places.values())
        relations = read_relations(sides.target, schemas.values()).values()
        there = {(relation.schema, relation.name) for relation in relations}
        noted = read_left_out(sides.target, sides.source_id)
        late: list[LeftOutRow] = []
        for key, place in places.items():
            if place not in found:
                continue
            skipped = read_skipped_of(sides.target, sides.source_id, key)
            expected = without(wanted[key], skipped)
            missing = _foreign_keys(plan_steps(expected, found[place], names, there.__contains__))
            late += [
                late_key(*key, "for a table that joined", sql)
                for name, sql in missing.items()
                if not any(item.name == shown_name(*key) and name in item.reason for item in noted)
            ]
        add_left_out(sides.target, sides.source_id, late)


def _foreign_keys(steps: Sequence[Step]) -> Mapping[str, str]:
    """Return what makes foreign keys, by their names, if that is all that steps do."""
    parts = [(step.needless, step.sql) for step in steps]
    if not all(part is not None and part.kind == "foreign key" for part, _ in parts):
        return {}
    return {part.name: sql for part, sql in parts if part is not None}
