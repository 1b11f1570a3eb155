"""Copies under the names of their tables, for as long as a transaction works on structures.

Whoever changes the structure of copies names them as the source does: in statements, in what is
compared, and in what is noted. So in its transaction, before anything else, copies that are called
otherwise get the names of their tables, and at its end those that the target knows them by. What
depends on a table depends on it whatever it is called, and nobody else sees a name in between.

A copy that is there keeps its name. One that is new, or whose table got another name, has the name
that the rules give to its table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from psycopg import errors
from psycopg.rows import args_row
from psycopg.sql import SQL, Identifier

from pgrepl.config.naming import NameClashError, shown_name
from pgrepl.config.rules import Rules
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["Mention", "give_names", "source_names"]

_Name = tuple[str, str]

#: Written the same wherever it is written: no quotes in it, no letters of other alphabets.
_PLAIN = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Mention:
    """Texts in which whatever is worked on is named; None: anything may be."""

    texts: Sequence[str] | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> Mention:
        """Take some texts; a name in them may be part of another word."""
        return cls([text.lower() for text in texts])

    def has_any(self, names: Iterable[str]) -> bool:
        """Whether one of some names is in the texts, or may be: another way to write it."""
        if self.texts is None:
            return True
        wanted = [name.lower() for name in names]
        return any(
            not _PLAIN.fullmatch(name) or any(name in text for text in self.texts)
            for name in wanted
        )


class _Copy(NamedTuple):
    """A copy, by a row of ``sql/named_copies.sql``."""

    #: Of the table, on the source.
    schema_name: str
    table_name: str
    target_schema: str | None
    #: None: the target has no such table.
    oid: int | None
    #: What it is called.
    name: str
    #: What its parents and children are called, on either side.
    family: Sequence[str]

    @property
    def key(self) -> _Name:
        """Schema and name on the source."""
        return self.schema_name, self.table_name

    @property
    def place(self) -> tuple[_Name, str | None, int | None, str]:
        """Whose copy it is, and where."""
        return self.key, self.target_schema, self.oid, self.name

    @property
    def is_named(self) -> bool:
        """Whether it is not called like its table."""
        return self.name != self.table_name


@contextmanager
def source_names(
    connection: Connection, source_id: int, rules: Rules, mention: Mention | None = None
) -> Iterator[None]:
    """Give copies the names of their tables while this lasts, in the caller's open transaction.

    ``mention``: those that are not named there are not touched. Whoever raises an error has the
    transaction, or a savepoint of it that began before, rolled back.

    Raises
    ------
    NameClashError
        when something else has a name that a copy is to have.

    """
    taken = _take(connection, source_id, rules, mention or Mention())
    named = [copy for copy in taken if copy.is_named]
    _forget(connection, source_id, named)
    _rename(connection, [(copy, copy.table_name) for copy in named])
    yield
    _settle(connection, source_id, rules, taken)


def _take(
    connection: Connection, source_id: int, rules: Rules, mention: Mention
) -> Sequence[_Copy]:
    """Return the copies that some texts name, those of another name locked.

    Another session may be giving them names in this moment. What was read before it has committed
    would be taken for what they are called.
    """
    while True:
        taken = _find_taken(_read_copies(connection, source_id, rules), mention)
        if _lock(connection, taken):
            again = _find_taken(_read_copies(connection, source_id, rules), mention)
            if [copy.place for copy in again] == [copy.place for copy in taken]:
                return again


def _find_taken(copies: Sequence[_Copy], mention: Mention) -> Sequence[_Copy]:
    taken = [
        copy
        for copy in copies
        if not copy.is_named or mention.has_any((copy.table_name, copy.name, *copy.family))
    ]
    return [*taken, *_in_the_way(copies, [copy for copy in taken if copy.is_named])]


def _lock(connection: Connection, copies: Sequence[_Copy]) -> bool:
    """Lock those of another name; False: one of them has just got yet another, or was dropped."""
    # In an order that all sessions take them in.
    named = sorted((c.oid, c) for c in copies if c.is_named and c.oid is not None)
    places = [Identifier(copy.target_schema or "", copy.name) for _, copy in named]
    if not places:
        return True
    try:
        with connection.transaction():
            names = SQL(", ").join(SQL("only {}").format(place) for place in places)
            connection.execute(SQL("lock table {} in access exclusive mode").format(names))
    except (errors.UndefinedTable, errors.InvalidSchemaName, errors.WrongObjectType):
        return False
    return True


def _in_the_way(copies: Sequence[_Copy], named: Sequence[_Copy]) -> Sequence[_Copy]:
    """Return the others that have the names of the tables of some copies, or of those others."""
    by_place = {(copy.target_schema, copy.name): copy for copy in copies if copy.is_named}
    found = list(named)
    for copy in found:
        other = by_place.get((copy.target_schema, copy.table_name))
        if other is not None and other not in found:
            found.append(other)
    return found[len(named) :]


def give_names(connection: Connection, source_id: int, rules: Rules) -> None:
    """Give copies that were made under the names of their tables those of the rules.

    Raises
    ------
    NameClashError
        when something else has such a name.

    """
    _settle(connection, source_id, rules, ())


def _settle(connection: Connection, source_id: int, rules: Rules, before: Sequence[_Copy]) -> None:
    """Give copies their names: those that they had, or else those of the rules."""
    old = {copy.oid: copy for copy in before if copy.oid is not None}
    moved: list[tuple[_Copy, str]] = []
    for copy in _read_copies(connection, source_id, rules, list(old)):
        if copy.oid is None or copy.is_named:
            continue
        was = old.get(copy.oid)
        is_same = was is not None and was.key == copy.key
        name = was.name if was and is_same else rules.target_table(*copy.key)
        if name != copy.name:
            moved.append((copy, name))
    _rename(connection, moved)
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.target_table"
            " (source_id, schema_name, table_name, target_name) values (%s, %s, %s, %s)",
            [(source_id, *copy.key, name) for copy, name in moved],
        )


def _read_copies(
    connection: Connection, source_id: int, rules: Rules, oids: Sequence[int] = ()
) -> Sequence[_Copy]:
    """Return the copies that have another name, or are to have one, or are among some OIDs."""
    keys = list(rules.table_names)
    with connection.cursor(row_factory=args_row(_Copy)) as cursor:
        return cursor.execute(
            load_query("pgrepl.store.tables", "named_copies"),
            {
                "source_id": source_id,
                "schemas": [schema for schema, _ in keys],
                "names": [name for _, name in keys],
                "oids": list(oids),
            },
        ).fetchall()


def _forget(connection: Connection, source_id: int, copies: Sequence[_Copy]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "delete from replication.target_table"
            " where source_id = %s and schema_name = %s and table_name = %s",
            [(source_id, *copy.key) for copy in copies],
        )


def _rename(connection: Connection, moved: Sequence[tuple[_Copy, str]]) -> None:
    """Give copies other names, among them perhaps those of one another."""
    there = [(copy, name) for copy, name in moved if copy.oid is not None]
    wanted = {(copy.target_schema, name) for copy, name in there}
    called = {copy.oid: copy.name for copy, _ in there}
    for copy, _ in there:
        if (copy.target_schema, copy.name) in wanted:
            called[copy.oid] = f"pgrepl_name_{copy.oid}"
            _rename_one(connection, copy, copy.name, called[copy.oid])
    for copy, name in there:
        _rename_one(connection, copy, called[copy.oid], name)


def _rename_one(connection: Connection, copy: _Copy, was: str, name: str) -> None:
    place = copy.target_schema or "", was
    statement = SQL("alter table {} rename to {}").format(Identifier(*place), Identifier(name))
    try:
        with connection.transaction():
            connection.execute(statement)
    except (errors.DuplicateTable, errors.DuplicateObject) as exc:
        there = shown_name(copy.target_schema or "", name)
        raise NameClashError(
            f"the copy of {shown_name(*copy.key)} cannot be called {there}: there is something else"
            " of that name"
        ) from exc
