"""Transactions of the spool as records: which tables, which transactions, DDL in its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.config.rules import Rules
from pgrepl.ddl_capture.decode.event import decode_event
from pgrepl.ddl_capture.omission import on_target
from pgrepl.decoding.changes import INSERT
from pgrepl.decoding.payload import Begin, PayloadDecoder
from pgrepl.decoding.row_change import RowChange
from pgrepl.errors import SpoolError
from pgrepl.export.envelopes.debezium import Moment
from pgrepl.export.envelopes.envelope import Envelope
from pgrepl.export.envelopes.table_rows import CannotExportError, UnknownColumnError
from pgrepl.export.record import Record
from pgrepl.export.tables import ExportedTable, TableName, of_definition
from pgrepl.export.transactions import SpooledTransaction
from pgrepl.store.spool.spool_format import DDL_TABLE

__all__ = ["Changes", "read_change"]

logger = logging.getLogger(__name__)

_NO_RULES = Rules()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Changes:
    """Makes records of transactions, and keeps the tables as they are at each of them."""

    def __init__(
        self,
        envelope: Envelope,
        selection: TableSelection,
        tables: Iterable[ExportedTable],
        last_commit: int,
        find_table: Callable[[TableName], ExportedTable | None],
        *,
        rules: Rules = _NO_RULES,
    ) -> None:
        """Go on from the tables and the last commit of a position.

        ``find_table`` asks the target for a table that no captured DDL told of.
        """
        self._rules = rules
        self._envelope = envelope
        self._selection = selection
        self._find_table = find_table
        self.last_commit = last_commit
        self._tables: dict[TableName, ExportedTable] = {}
        self._known: dict[TableName, bool] = {}
        for table in tables:
            self._describe(table)
        #: Whether the tables are others than at the start.
        self.has_new_tables = False

    @property
    def tables(self) -> Mapping[TableName, ExportedTable]:
        """The tables as they are now."""
        return self._tables

    def take(self, transactions: Iterable[SpooledTransaction]) -> Iterator[Record]:
        """Yield the records of transactions.

        Raises
        ------
        CannotExportError
            when the envelope has no form for a change.
        UnknownColumnError
            when the structure of a table is not known.

        """
        for transaction in transactions:
            yield from self._take_one(transaction)

    def _take_one(self, transaction: SpooledTransaction) -> Iterator[Record]:
        moment: Moment | None = None
        for decoder, message in transaction.changes():
            name = decoder.names_of(message)
            if name == DDL_TABLE:
                self._take_ddl(decoder, message)
            elif self._is_selected(name):
                change = read_change(decoder, message, name)
                if self._is_contained(name, transaction.begin):
                    continue
                if moment is None:
                    moment = self._moment(transaction.begin)
                    yield from self._envelope.begin(moment)
                yield from self._records(change, moment)
        if moment is not None:
            yield from self._envelope.end(moment)
            self.last_commit = transaction.begin.commit_lsn

    def _records(self, change: RowChange, moment: Moment) -> Iterator[Record]:
        if change.name not in self._tables:
            self._learn(change.name)
        try:
            yield from self._envelope.change(change, moment)
        except UnknownColumnError:
            # Copied again, or joined, while nobody captured its DDL: the target knows it.
            self._learn(change.name)
            yield from self._envelope.change(change, moment)

    def _learn(self, name: TableName) -> None:
        found = self._find_table(name)
        if found is None:
            raise UnknownColumnError(
                f"table {shown_name(*name)} is not known: no captured DDL told of it, and the"
                " target does not have it",
                hint="Copy it with pgrepl resync, or leave it out.",
            )
        logger.warning(
            "table %s was not known before: its structure is taken from the target, and rows that"
            " it had before are not in the export",
            shown_name(*name),
        )
        self._describe(found)

    def _take_ddl(self, decoder: PayloadDecoder, message: bytes) -> None:
        """Change tables as captured DDL did."""
        if decoder.action_of(message) != INSERT:
            return
        event = decode_event(decoder.read_row(message, "replace"))
        for definition in event.tables:
            known = self._tables.get(definition.key)
            table = on_target(definition, self._rules)
            self._describe(of_definition(table, None if known is None else known.start))
        for dropped in event.dropped:
            if dropped.type == "table" and dropped.schema is not None and dropped.names:
                self._tables.pop((dropped.schema, dropped.names[-1]), None)

    def _describe(self, table: ExportedTable) -> None:
        if self._tables.get(table.name) != table:
            self._tables[table.name] = table
            self._envelope.describe(table)
            self.has_new_tables = True

    def _is_selected(self, name: TableName) -> bool:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._selection.matches(*name)
        return known

    def _is_contained(self, name: TableName, begin: Begin) -> bool:
        """Whether the rows of a snapshot have the transaction already."""
        table = self._tables.get(name)
        if table is None or table.start is None:
            return False
        return table.start.contains()(begin.xid, begin.commit_lsn)

    def _moment(self, begin: Begin) -> Moment:
        try:
            at = datetime.fromisoformat(begin.commit_at)
        except ValueError as exc:
            raise SpoolError("the time of a commit cannot be read") from exc
        at_us = (at - _EPOCH) // _MICROSECOND
        return Moment(begin.xid, begin.commit_lsn, self.last_commit, at_us)


def read_change(decoder: PayloadDecoder, message: bytes, name: TableName) -> RowChange:
    """Return a change of a table as values.

    Raises
    ------
    CannotExportError
        when a value is not valid in the source's encoding.

    """
    try:
        return decoder.read_change(message)
    except UnicodeDecodeError as exc:
        raise CannotExportError(
            f"a value of {shown_name(*name)} is not valid in encoding {decoder.encoding}",
            hint="Leave the table out, or correct the value on the source; then start over.",
        ) from exc
