"""DDL after which values would reach the target against the rules: receiving stops before it.

Rules go by the names of tables and columns. A table that gets another name, or a column of it, has
to have the same masks by that one; the rows of ``CREATE TABLE AS`` are those of the tables that it
reads. The log of captured DDL stands in the stream before all that depends on it, so that nothing
of what follows is received before the new names have rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from postgast import pg_query_pb2

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.config.rules import Treatment
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.decode.filled import FILLED, find_filled_table
from pgrepl.ddl_capture.decode.statement import UnknownStatementError, find_statement
from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.errors import ConfigError
from pgrepl.syntax.filters import filter_columns
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse_one, walk
from pgrepl.syntax.statement_kinds import statement_of
from pgrepl.terminal import command

__all__ = ["RuleGuard"]

TableName = tuple[str, str]

_OBJECT = pg_query_pb2.ObjectType
_VIEWS = frozenset({"CREATE VIEW", "CREATE MATERIALIZED VIEW"})


class RuleGuard:
    """Looks at captured DDL before it is received."""

    def __init__(
        self,
        source: SourceConfig,
        oids: Mapping[TableName, int],
        read_views: Callable[[], Mapping[TableName, Iterable[TableName]]],
    ) -> None:
        """Take the tables that are known, and what tells which relations a view reads."""
        self._source = source
        self._rules = source.rules
        self._read_views = read_views
        #: Which relations the views read that were made while this one looked: some are no more.
        self._made_views: dict[TableName, set[TableName]] = {}
        #: What rules do to relations, by their oids. A name of theirs from before does as well:
        #: whatever it is, its rules are the same.
        self._known = {oid: self._rules.treatment(*name) for name, oid in oids.items()}

    def check_event(self, event: CapturedEvent) -> None:
        """Look at a row of the log.

        Raises
        ------
        ConfigError
            when values would not be masked any more after it.

        """
        if event.tag in FILLED and event.kind == "start":
            self._check_filled(event)
        elif event.tag in _VIEWS and event.kind == "end":
            self._learn_view(event)
        for table in event.tables:
            if self._source.selection.matches(*table.root):
                self._check_table(event, table)
        if event.tag in ("ALTER TABLE", "ALTER TYPE") and event.kind == "end":
            self._check_renamed(event)

    def _check_table(self, event: CapturedEvent, table: TableDefinition) -> None:
        name = shown_name(*table.key)
        treatment = self._rules.treatment(*table.key)
        masks = treatment.masks
        for parent in {table.root, *table.parents} - {table.key}:
            if self._rules.treatment(*parent) != treatment:
                raise self._breach(
                    event, f"makes {name} a part of {shown_name(*parent)}, which has other rules"
                )
        if table.oid is None:
            raise ConfigError(
                f'the capture of DDL on source "{self._source.name}" is too old for rules',
                hint=f"Renew it: {command('ddl', 'install', self._source.name)}",
            )
        before = self._known.setdefault(table.oid, treatment)
        if before != treatment:
            raise self._breach(event, f"gives a table the name {name}, which has other rules")
        there = {column.name for column in table.columns}
        read = filter_columns(treatment.where) if treatment.where else frozenset()
        if not read <= there:
            what = f'column "{min(read - there)}" of {name}, which its filter reads'
            raise self._breach(event, f"drops or renames {what}")
        for column in table.columns:
            if column.generated is not None and column.name not in masks:
                masked = _columns_in(column.generated) & masks.keys()
                if masked:
                    what = f'column "{column.name}" of {name} from "{min(masked)}", which is masked'
                    raise self._breach(event, f"generates {what}")

    def _check_renamed(self, event: CapturedEvent) -> None:
        tables = [self._rules.masks_of(*table.key) for table in event.tables]
        if event.tag == "ALTER TYPE":
            # Of a type that tables may be of.
            tables = [entry.masks for entry in self._rules.entries]
        if not any(tables):
            return
        try:
            kind, statement = statement_of(find_statement(event).tree)
        except (UnknownStatementError, SqlSyntaxError):
            if any(item.type == "table column" for item in event.objects):
                raise self._breach(event, "renames a column, but not in a way that shows") from None
            return
        if kind != "RenameStmt" or statement.rename_type not in (
            _OBJECT.OBJECT_COLUMN,
            _OBJECT.OBJECT_ATTRIBUTE,
        ):
            return
        old, new = statement.subname, statement.newname
        for masks in tables:
            if old in masks and masks.get(new) != masks[old]:
                raise self._breach(
                    event, f'gives column "{old}" the name "{new}", which has no such mask'
                )

    def _check_filled(self, event: CapturedEvent) -> None:
        """Refuse a table that is made of the rows of others, unless a rule is for it."""
        try:
            name, is_temporary, statement, made = find_filled_table(event)
        except (UnknownStatementError, SqlSyntaxError):
            raise self._breach(event, "fills a table, but does not show from what") from None
        if is_temporary or not self._source.selection.matches(*name) or self._rules.is_named(*name):
            return
        masked = self._find_masked(event, statement, made)
        if masked is not None:
            raise self._breach(event, f"fills {shown_name(*name)} from {masked}")

    def _find_masked(self, event: CapturedEvent, statement: Tree, made: Tree) -> str | None:
        """Return what a statement reads that is masked, or shows what is."""
        parts = list(walk(statement))
        if any(part.DESCRIPTOR.name == "ExecuteStmt" for part in parts):
            return "a prepared statement"
        closed = self._closure()
        for key in _names_read(event, parts, made):
            if self._treatment(key).is_any or key in closed:
                return shown_name(*key)
        return None

    def _learn_view(self, event: CapturedEvent) -> None:
        """Remember what a view reads, for as long as this one looks."""
        names = [(item.schema, item.name) for item in event.objects if item.type.endswith("view")]
        with suppress(UnknownStatementError, SqlSyntaxError):
            _, statement = statement_of(find_statement(event).tree)
            read = set(_names_read(event, list(walk(statement))))
            for schema, name in names:
                if schema is not None and name is not None:
                    self._made_views.setdefault((schema, name), set()).update(read)

    def _closure(self) -> set[TableName]:
        """Return the views that show columns of tables with rules."""
        views = [*self._read_views().items(), *self._made_views.items()]
        found: set[TableName] = set()
        size = -1
        while len(found) > size:
            size = len(found)
            found |= {
                view
                for view, read in views
                if any(self._treatment(name).is_any or name in found for name in read)
            }
        return found

    def _treatment(self, name: TableName) -> Treatment:
        return self._rules.treatment(*name)

    def _breach(self, event: CapturedEvent, what: str) -> ConfigError:
        return ConfigError(
            f'source "{self._source.name}": {event.tag} {what}; receiving stops before it, so that'
            " nothing reaches the target against the rules",
            hint="Give the new names rules, in pgrepl.toml, besides the old ones, or exclude the"
            " table; receiving then goes on. See docs/rules.md.",
        )


def _names_read(
    event: CapturedEvent, parts: Iterable[Tree], made: Tree | None = None
) -> Iterator[TableName]:
    """Return whatever relations a statement may read.

    A name of its WITH may be a table's as well, inside of the query that has it.
    """
    for part in parts:
        if part.DESCRIPTOR.name == "RangeVar" and part != made:
            for schema in [part.schemaname] if part.schemaname else event.path:
                yield schema, part.relname


def _columns_in(expression: str) -> set[str]:
    tree = parse_one(f"select {expression}")
    return {
        part.fields[-1].string.sval for part in walk(tree) if part.DESCRIPTOR.name == "ColumnRef"
    }
