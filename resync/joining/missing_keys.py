"""Foreign keys to and from a table that DDL or a rule kept from being made until now.

Of each such table there is word among what the copy has not, until they were looked at: whoever is
killed before that leaves it to the next resync of the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pgrepl.catalog.tables import SourceTable, read_tables
from pgrepl.config.naming import shown_name
from pgrepl.ddl_capture.apply.structure.reconcile import plan_steps
from pgrepl.ddl_capture.apply.structure.reconcile_step import Step
from pgrepl.ddl_capture.apply.target_catalog import read_definitions, read_relations
from pgrepl.ddl_capture.missed import read_names
from pgrepl.ddl_capture.omission import on_target
from pgrepl.ddl_capture.policy.expectation import without
from pgrepl.failpoint import reach
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.joining.late_keys import is_late, late_key
from pgrepl.resync.sides import Sides
from pgrepl.store.resync.running_resyncs import find_resync
from pgrepl.store.skipped_code import read_skipped_of
from pgrepl.store.tables.copy_work import (
    LeftOutRow,
    add_left_out,
    read_left_out,
    remove_left_out,
)
from pgrepl.store.tables.places import read_places

__all__ = ["await_keys", "is_awaited", "note_awaited"]

_AWAITED = "those of it and to it are looked for by a resync, now that it is to have all its rows"


def await_keys(sides: Sides, tables: Iterable[tuple[str, str]]) -> None:
    """Leave word that foreign keys of some tables, and to them, may be missing."""
    words = {_word(key) for key in tables} - _read_words(sides)
    add_left_out(sides.target, sides.source_id, sorted(words))


def is_awaited(item: LeftOutRow) -> bool:
    """Whether what the copy has not is one or more foreign keys that a resync makes. Pure."""
    return item.reason == _AWAITED or is_late(item)


def note_awaited(sides: Sides) -> None:
    """Name the missing foreign keys of all tables that there is word of, but of those in hand."""
    with translated(sides.endpoint, "cannot look for foreign keys"):
        words = _read_words(sides)
    if not words:
        return
    with translated(sides.source.endpoint, "cannot read the catalogue"):
        tables = read_tables(sides.source_session, sides.source.rules)
    for table in tables:
        word = _word(table.key)
        if word not in words:
            continue
        with translated(sides.endpoint, "cannot look for foreign keys"):
            if find_resync(sides.target, sides.source_id, table.key) is not None:
                continue
        _note_missing_keys(sides, table)
        reach("resync.references_noted")
        with translated(sides.endpoint, "cannot note foreign keys"):
            remove_left_out(sides.target, sides.source_id, word)


def _word(key: tuple[str, str]) -> LeftOutRow:
    return LeftOutRow("foreign keys", shown_name(*key), _AWAITED)


def _read_words(sides: Sides) -> set[LeftOutRow]:
    return {row for row in read_left_out(sides.target, sides.source_id) if row.reason == _AWAITED}


def _note_missing_keys(sides: Sides, table: SourceTable) -> None:
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
        names = replace(names, tables=read_places(sides.target, sides.source_id).renamed)
        schemas = names.schemas
        places = {key: names.place(*key) for key in wanted if key[0] in schemas}
        found = read_definitions(sides.target, places.values())
        relations = read_relations(sides.target, schemas.values()).values()
        there = {(relation.schema, relation.name) for relation in relations}
        noted = [row for row in read_left_out(sides.target, sides.source_id) if is_late(row)]
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
                if not any(
                    item.name == shown_name(*key) and _names(item.reason, name) for item in noted
                )
            ]
        add_left_out(sides.target, sides.source_id, late)


def _names(text: str, name: str) -> bool:
    """Whether a statement names something, as itself and not as a part of another name."""
    quoted = name.replace('"', '""')
    return bool(re.search(rf"(?<![\w$]){re.escape(quoted)}(?![\w$])", text))


def _foreign_keys(steps: Sequence[Step]) -> Mapping[str, str]:
    """Return what makes foreign keys, by their names, if that is all that steps do."""
    parts = [(step.needless, step.sql) for step in steps]
    if not all(part is not None and part.kind == "foreign key" for part, _ in parts):
        return {}
    return {part.name: sql for part, sql in parts if part is not None}
