"""Tables with rules, before and after a command: whether these still hold in the copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pgrepl.catalog.rule_facts import find_problems
from pgrepl.ddl_capture.apply.target_catalog import read_definitions
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import Rewrite
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.store.sources import read_target_schemas
from pgrepl.syntax.filters import filter_columns

__all__ = ["RuledTables"]


class RuledTables:
    """The tables of one command that have rules."""

    def __init__(
        self, target: Workspace, tables: Sequence[TableDefinition], rewrites: Sequence[Rewrite]
    ) -> None:
        """Look at them before the command runs."""
        self._target = target
        self._rules = target.source.rules
        self._tables = [table for table in tables if self._rules.treatment(*table.key).is_any]
        self._rewritten = {(r.schema, r.name) for r in rewrites if not r.is_persistence}
        self._before = self._masked_types(self._old_names()) if self._tables else {}

    def settle(self) -> None:
        """Refuse what the masks cannot hold with, and have copied again what was not masked here.

        The target filled a new column by its default, and a rewritten one from what was masked.
        Which rows a filter keeps may be another matter when a column that it reads was rewritten.

        Raises
        ------
        RefusedError
            when a mask cannot hold any more.

        """
        if not self._tables:
            return
        places = self._places([table.key for table in self._tables])
        found = find_problems(self._target.connection, self._rules, places)
        failures = [str(problem) for problem in found if problem.is_failure]
        if failures:
            raise RefusedError(
                f"rules cannot hold after it: {'; '.join(failures)}; choose another mask, have"
                " pgrepl receive run with it, and retry"
            )
        after = self._masked_types({table.key: table.key for table in self._tables})
        for key, types in after.items():
            before = self._before.get(key, {})
            is_other = types != before or key in self._rewritten
            if (types.keys() - before.keys()) & self._rules.omitted(*key):
                self._target.mark(places[key], "it got a column that rules omit")
            elif is_other and self._rules.is_filtered(*key):
                self._target.mark(places[key], "a column was rewritten, and rules filter its rows")
            elif is_other and self._target.has_rows(places[key]):
                self._target.mark(places[key], "a column that has a mask is new or was rewritten")

    def _old_names(self) -> Mapping[TableName, TableName]:
        """Return the names that the tables had before the command."""
        by_oid = {oid: name for name, oid in self._target.source_oids().items()}
        return {
            table.key: table.key if table.oid is None else by_oid.get(table.oid, table.key)
            for table in self._tables
        }

    def _masked_types(
        self, names: Mapping[TableName, TableName]
    ) -> dict[TableName, dict[str, str]]:
        """Return the types of columns that rules name, of tables that are there."""
        places = self._places(names.values())
        found = read_definitions(self._target.connection, places.values())
        return {
            key: {
                column.name: column.type
                for column in found[place].columns
                if column.name in self._named(key)
            }
            for key, name in names.items()
            if (place := places.get(name)) in found
        }

    def _named(self, key: TableName) -> frozenset[str]:
        treatment = self._rules.treatment(*key)
        read = filter_columns(treatment.where) if treatment.where else frozenset()
        return read.union(treatment.masks)

    def _places(self, names: Iterable[TableName]) -> dict[TableName, TableName]:
        schemas = read_target_schemas(self._target.connection, self._target.source_id)
        return {name: (schemas[name[0]], name[1]) for name in names if name[0] in schemas}
