"""Rows of one table as events have them: columns by their types, keys, what was not sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pgrepl.config.naming import shown_name
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.row_change import RowChange
from pgrepl.errors import SpoolError
from pgrepl.export.envelopes.values import column_type
from pgrepl.export.tables import ExportedTable

__all__ = ["CannotExportError", "TableRows", "UnknownColumnError"]

Texts = Mapping[str, str | None]
Row = dict[str, Any]


class CannotExportError(SpoolError):
    """A change that the envelope has no form for."""


class UnknownColumnError(SpoolError):
    """A change has other columns than its table is known to have."""


class TableRows:
    """Makes rows of a table, as it is between two DDL statements."""

    def __init__(self, table: ExportedTable, *, is_avro: bool, is_whole: bool) -> None:
        """Take the table at one position; without ``is_whole`` only its key is sure to be there."""
        self.table = table
        self.shown = shown_name(*table.name)
        types = {own.name: column_type(own.type, is_avro=is_avro) for own in table.columns}
        self._types = types
        #: Connect's fields of a row and of a key.
        self.fields = tuple(
            replace(
                types[own.name].field,
                name=own.name,
                is_optional=not (own.name in table.key or (is_whole and own.is_not_null)),
            )
            for own in table.columns
        )
        by_name = {own.name: own for own in self.fields}
        self.key_fields: tuple[Field, ...] = tuple(
            replace(by_name[name], is_optional=False) for name in table.key
        )

    def check(self, change: RowChange) -> None:
        """Refuse a change with columns that nobody knows, or without some that it must have.

        Raises
        ------
        UnknownColumnError
            naming one.

        """
        # What the source generates is not handed on, and some plugins send it.
        for name in change.new or ():
            if name not in self._types and not self.is_ignored(name):
                raise UnknownColumnError(self._unknown(f'column "{name}"'), hint=_DDL_HINT)
        if change.action == b"I":
            for name in self._types:
                if name not in (change.new or ()):
                    raise UnknownColumnError(
                        f'a row of {self.shown} came without column "{name}"', hint=_DDL_HINT
                    )

    def is_ignored(self, name: str) -> bool:
        """Whether a column is generated on the source."""
        return name in self.table.ignored

    def new_row(self, change: RowChange, *, is_whole: bool) -> Row:
        """Return the new row; what is unchanged and was not sent has Debezium's placeholder.

        With ``is_whole`` there must not be such a value.
        """
        new, old = change.new or {}, change.old or {}
        row: Row = {}
        for name, kind in self._types.items():
            if name in new or name in old:
                row[name] = self._encode(name, new[name] if name in new else old[name])
            elif is_whole:
                raise CannotExportError(
                    f'a change of {self.shown} does not have column "{name}", which is unchanged'
                    " and stored out of line, and an upsert is a whole row",
                    hint=f"On the source: ALTER TABLE {self.shown} REPLICA IDENTITY FULL; or use"
                    " --envelope debezium. Then start over with --restart --snapshot.",
                )
            elif kind.placeholder is None:
                raise CannotExportError(
                    f'a change of {self.shown} does not have column "{name}", which is unchanged'
                    " and stored out of line, and its type has no placeholder",
                    hint=f"On the source: ALTER TABLE {self.shown} REPLICA IDENTITY FULL; then"
                    " start over with --restart --snapshot.",
                )
            else:
                row[name] = kind.placeholder
        return row

    def old_row(self, texts: Texts) -> Row:
        """Return what came of an old row; the rest of it is null, as in Debezium's events."""
        return {
            name: self._encode(name, texts[name]) if name in texts else None for name in self._types
        }

    def has_whole(self, texts: Texts | None) -> bool:
        """Whether an old row came whole."""
        return texts is not None and all(name in texts for name in self._types)

    def key(self, texts: Texts) -> Row | None:
        """Return the key of a row; None: the table has none."""
        if not self.table.key:
            return None
        missing = [name for name in self.table.key if texts.get(name) is None]
        if missing:
            raise CannotExportError(
                f'a change of {self.shown} does not have column "{missing[0]}" of its key',
                hint="Was the replica identity of the table changed while DDL was not captured?"
                " Start over with --restart --snapshot.",
            )
        return {name: self._encode(name, texts[name]) for name in self.table.key}

    def _encode(self, name: str, text: str | None) -> Any:  # noqa: ANN401  a value of any type
        if text is None:
            return None
        try:
            return self._types[name].encode(text)
        except ValueError as exc:
            # Of what is said here nothing is a value.
            raise CannotExportError(
                f'a value of {self.shown}, column "{name}", has no exact form: {_reason(exc)}',
                hint="Leave the table out, or change the type of the column; then start over with"
                " --restart.",
            ) from exc

    def _unknown(self, what: str) -> str:
        return f"a change of {self.shown} has {what}, which is not known"


def _reason(error: ValueError) -> str:
    return str(error) if type(error) is ValueError and "'" not in str(error) else "it is unreadable"


_DDL_HINT = (
    "Its structure was changed while DDL was not captured: pgrepl ddl install, then start over with"
    " --restart --snapshot."
)
