"""Commands that make a table of the rows of others: the log has a row before these, too. Pure."""

from __future__ import annotations

from typing import NamedTuple

from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.decode.statement import find_statement
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["FILLED", "FilledTable", "find_filled_table"]

#: Their tags.
FILLED = frozenset({"CREATE TABLE AS", "SELECT INTO"})


class FilledTable(NamedTuple):
    """The table that such a command makes."""

    name: tuple[str, str]
    is_temporary: bool
    #: The command, and in it what names the table.
    statement: Tree
    made: Tree


def find_filled_table(event: CapturedEvent) -> FilledTable:
    """Return what a command is about to make.

    Raises
    ------
    UnknownStatementError, SqlSyntaxError
        when its text does not tell.

    """
    kind, statement = statement_of(find_statement(event).tree)
    made = (statement.into if kind == "CreateTableAsStmt" else statement.into_clause).rel
    schema = made.schemaname or next(iter(event.path), "")
    return FilledTable((schema, made.relname), made.relpersistence == "t", statement, made)
