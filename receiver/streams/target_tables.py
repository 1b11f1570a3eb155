"""Tables of the target, made and widened as the schemas of records say.

They are made before the first row of them is spooled, in a transaction of their own: a table too
many does no harm, and is found again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier

from pgrepl.catalog.ownership import ensure_owner, hand_over
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import IDENTIFIER_BYTES, check_target_schema, shown_name
from pgrepl.decoding.records.values import BadValue
from pgrepl.errors import TargetError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.routing import TableName
from pgrepl.store.sources import SourceRow, add_target_schema, read_target_schemas
from pgrepl.store.tables.source_tables import add_new_table

__all__ = ["ColumnSpec", "TargetTables"]

logger = logging.getLogger(__name__)

_COLUMNS = """
select a.attname::text, format_type(a.atttypid, a.atttypmod)
  from pg_attribute a
 where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
   and a.attgenerated = ''
 order by a.attnum
"""


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as a schema wants it."""

    name: str
    #: PostgreSQL's type; made by us, never by the source.
    type: str
    is_not_null: bool
    #: What is lost of its values before they come; None: nothing that is known.
    loss: str | None = None


class TargetTables:
    """The tables of one source; each is looked at once."""

    def __init__(self, endpoint: Endpoint, config: SourceConfig, source: SourceRow) -> None:
        """Look at nothing yet."""
        self._endpoint = endpoint
        self._config = config
        self._source = source
        self._columns: dict[TableName, Mapping[str, str]] = {}

    def columns(self, name: TableName) -> Mapping[str, str] | None:
        """Return the types of a table's columns, by name; None: there is no such table."""
        known = self._columns.get(name)
        if known is None:
            with closing(connect(self._endpoint, "receive")) as connection:
                known = self._read(connection, name)
                if not known:
                    # Where a person can make it.
                    with connection.transaction():
                        self._ensure_schema(connection, name[0])
            if known:
                self._columns[name] = known
        return known or None

    def forget(self) -> None:
        """Look at tables again: a person may have changed them."""
        self._columns.clear()

    def ensure(
        self, name: TableName, wanted: Sequence[ColumnSpec], key: Sequence[str]
    ) -> Mapping[str, str]:
        """Make a table, or the columns that it has not; return the types of its columns."""
        known = self._columns.get(name, {})
        if all(column.name in known for column in wanted):
            return known
        self._check_names(name, wanted)
        with (
            closing(connect(self._endpoint, "receive")) as connection,
            translated(self._endpoint, f"cannot make table {shown_name(*name)}"),
        ):
            with connection.transaction():
                self._make(connection, name, wanted, key)
            found = self._columns[name] = self._read(connection, name)
        return found

    def _check_names(self, name: TableName, wanted: Sequence[ColumnSpec]) -> None:
        names = (*name, *(column.name for column in wanted))
        if any(not own or len(own.encode()) > IDENTIFIER_BYTES or "\0" in own for own in names):
            raise BadValue("a name is empty or longer than 63 bytes")

    def _target_schema(self, schema: str) -> str:
        return self._config.schema.target_schema(
            source=self._config.name, db=self._config.name, schema=schema
        )

    def _read(self, connection: Connection, name: TableName) -> Mapping[str, str]:
        schema, table = name
        with translated(self._endpoint, f"cannot look at table {shown_name(*name)}"):
            schemas = read_target_schemas(connection, self._source.source_id)
            if schema not in schemas:
                return {}
            identifier = SQL("{}").format(Identifier(schemas[schema], table)).as_string()
            found = connection.execute(_COLUMNS, (identifier,)).fetchall()
            if found:
                add_new_table(connection, self._source.source_id, name, Lsn(0))
            return dict(found)

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
            for column in wanted:
                if column.name not in existing:
                    logger.info(
                        "adding a column",
                        extra={"table": shown_name(*name), "column": column.name},
                    )
                    connection.execute(
                        SQL("alter table {} add column {} {}").format(
                            identifier, Identifier(column.name), _type(column)
                        )
                    )
                    _tell_loss(name, column)
            return
        parts = [
            SQL("{} {}{}").format(
                Identifier(column.name),
                _type(column),
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

    def _ensure_schema(self, connection: Connection, schema: str) -> str:
        """Make the target's schema for one of the source's, unless it is there already."""
        schemas = read_target_schemas(connection, self._source.source_id)
        if schema in schemas:
            return schemas[schema]
        target = self._target_schema(schema)
        try:
            check_target_schema(target, f'schema "{schema}" of source "{self._config.name}"')
        except ValueError as exc:
            raise TargetError(
                str(exc), hint="Name it otherwise with schema in pgrepl.toml."
            ) from exc
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


def _type(column: ColumnSpec) -> SQL:
    # One of our own mapping: no text of a source's is in it but numbers that were read as such.
    return SQL(column.type)
