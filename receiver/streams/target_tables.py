"""Tables of the target, made and widened as the schemas of records say.

They are made before the first row of them is spooled, in a transaction of their own: a table too
many does no harm, and is found again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import psycopg
from psycopg.sql import SQL, Identifier

from pgrepl.catalog.ownership import ensure_owner, hand_over
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import IDENTIFIER_BYTES, check_target_schema, shown_name
from pgrepl.decoding.records.values import BadValue
from pgrepl.errors import TargetError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import is_refusal, reason, translated
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.table_changes import (
    ColumnSpec,
    FoundColumn,
    TableChange,
    needed_changes,
    type_sql,
)
from pgrepl.store.sources import SourceRow, add_target_schema, read_target_schemas
from pgrepl.store.tables.source_tables import add_new_table

__all__ = ["TargetTables"]

logger = logging.getLogger(__name__)

_COLUMNS = """
select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       exists (
         select from pg_index i
          where i.indrelid = a.attrelid and i.indisprimary and a.attnum = any (i.indkey)
       )
  from pg_attribute a
 where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
   and a.attgenerated = ''
 order by a.attnum
"""


class TargetTables:
    """The tables of one source; each is looked at once."""

    def __init__(self, endpoint: Endpoint, config: SourceConfig, source: SourceRow) -> None:
        """Look at nothing yet."""
        self._endpoint = endpoint
        self._config = config
        self._source = source
        self._columns: dict[TableName, Mapping[str, FoundColumn]] = {}

    def columns(self, name: TableName) -> Mapping[str, FoundColumn] | None:
        """Return the columns of a table by name; None: there is no such table."""
        known = self._columns.get(name)
        if known is None:
            _check_names(*name)
            with closing(connect(self._endpoint, "receive")) as connection:
                known = self._read(connection, name)
                if not known:
                    # Where a person can make it.
                    with (
                        translated(self._endpoint, f"cannot make schema {shown_name(name[0])}"),
                        connection.transaction(),
                    ):
                        self._ensure_schema(connection, name[0])
            if known:
                self._columns[name] = known
        return known or None

    def forget(self) -> None:
        """Look at tables again: a person may have changed them."""
        self._columns.clear()

    def ensure(
        self, name: TableName, wanted: Sequence[ColumnSpec], key: Sequence[str]
    ) -> Mapping[str, FoundColumn]:
        """Make a table, or what it lacks for rows of a schema; return its columns.

        Raises
        ------
        BadValue
            when no table can be like that.

        """
        known = self._columns.get(name)
        if known is not None and not any(needed_changes(known, wanted)):
            return known
        _check_names(*name, *(column.name for column in wanted))
        with (
            closing(connect(self._endpoint, "receive")) as connection,
            translated(self._endpoint, f"cannot make table {shown_name(*name)}"),
        ):
            with _refused("its schema makes no table"), connection.transaction():
                self._make(connection, name, wanted, key)
            reach("receiver.table_made")
            found = self._columns[name] = self._read(connection, name)
        return found

    def _target_schema(self, schema: str) -> str:
        return self._config.schema.target_schema(
            source=self._config.name, db=self._config.name, schema=schema
        )

    def _read(self, connection: Connection, name: TableName) -> Mapping[str, FoundColumn]:
        schema, table = name
        with translated(self._endpoint, f"cannot look at table {shown_name(*name)}"):
            schemas = read_target_schemas(connection, self._source.source_id)
            if schema not in schemas:
                return {}
            identifier = SQL("{}").format(Identifier(schemas[schema], table)).as_string()
            found = connection.execute(_COLUMNS, (identifier,)).fetchall()
            if found:
                add_new_table(connection, self._source.source_id, name, Lsn(0))
            return {column: FoundColumn(*own) for column, *own in found}

    def _make(
        self,
        connection: Connection,
        name: TableName,
        wanted: Sequence[ColumnSpec],
        key: Sequence[str],
    ) -> None:
        schema, table = name
        target = self._ensure_schema(connection, schema)
        existing = self._read(connection, name)
        identifier = Identifier(target, table)
        if existing:
            for change in needed_changes(existing, wanted):
                self._change(connection, name, identifier, change)
            for column in wanted:
                if column.name not in existing:
                    _tell_loss(name, column)
            return
        parts = [
            SQL("{} {}{}").format(
                Identifier(column.name),
                type_sql(column.type),
                SQL(" not null" if column.is_not_null else ""),
            )
            for column in wanted
        ]
        if key:
            names = SQL(", ").join(map(Identifier, key))
            parts.append(SQL("primary key ({})").format(names))
        connection.execute(SQL("create table {} ({})").format(identifier, SQL(", ").join(parts)))
        add_new_table(connection, self._source.source_id, name, Lsn(0))
        owner = ensure_owner(connection, self._endpoint, self._config.owner_role)
        if owner is not None:
            hand_over(connection, [target], owner)
        logger.info("made a table", extra={"table": shown_name(target, table)})
        for column in wanted:
            _tell_loss(name, column)

    def _change(
        self, connection: Connection, name: TableName, identifier: Identifier, change: TableChange
    ) -> None:
        """Change a column; where rows may fit without it, others may stand in the way."""
        about = {"table": shown_name(*name), "column": change.column}
        statement = SQL("alter table {} {}").format(identifier, change.clause)
        try:
            with connection.transaction():
                connection.execute(statement)
        except psycopg.Error as exc:
            if change.is_needed or not is_refusal(exc):
                raise
            logger.warning("cannot change a column: %s", reason(exc), extra=about)
        else:
            logger.info("changed a column as its schema did", extra=about)

    def _ensure_schema(self, connection: Connection, schema: str) -> str:
        """Make the target's schema for one of the source's, unless it is there already."""
        schemas = read_target_schemas(connection, self._source.source_id)
        if schema in schemas:
            return schemas[schema]
        target = self._target_schema(schema)
        try:
            check_target_schema(target, f'schema "{schema}" of source "{self._config.name}"')
        except ValueError as exc:
            raise BadValue(f"{exc}: name it otherwise with schema in pgrepl.toml") from exc
        ((is_there,),) = connection.execute(
            "select to_regnamespace(%s) is not null",
            (SQL("{}").format(Identifier(target)).as_string(),),
        ).fetchall()
        if is_there:
            raise TargetError(
                f'schema "{target}" is on the target already, and is not owned by pgrepl',
                hint="Rename or drop it, or name another with schema in pgrepl.toml.",
            )
        connection.execute(SQL("create schema {}").format(Identifier(target)))
        add_target_schema(connection, self._source.source_id, schema, target)
        return target


def _tell_loss(table: TableName, column: ColumnSpec) -> None:
    """Say once, when a column is made, what it will never have."""
    if column.loss is not None:
        logger.warning(
            "column %s of table %s: %s",
            column.name,
            shown_name(*table),
            column.loss,
            extra={"hint": "See docs/kafka.md: Values."},
        )


def _check_names(*names: str) -> None:
    if any(not own or len(own.encode()) > IDENTIFIER_BYTES or "\0" in own for own in names):
        raise BadValue("a name is empty, longer than 63 bytes, or has the character NUL")


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raise what a server refuses for its content as the record's fault: others go on."""
    try:
        yield
    except psycopg.Error as exc:
        if not is_refusal(exc):
            raise
        raise BadValue(f"{what}: {reason(exc)}") from exc
