"""The texts of an event without the statements that are not DDL: these hold values of rows. Pure.

A client may send DDL and ``INSERT`` in one message, or call a function with what it shall write.
What finds the statement of an event in its texts, ``find_statement``, finds the same in these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from pgrepl.ddl_capture.decode.command_tags import command_tag
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.decode.statement import (
    FUNCTION,
    STATEMENT,
    quoted_statements,
    read_statements,
)
from pgrepl.syntax.parse import SqlSyntaxError, Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["NOT_SHOWN", "ddl_texts"]

#: Stands for a text that shows nothing else than what may hold values.
NOT_SHOWN = "-- not shown: rules hold for this source"
#: In the place of a statement that others are counted after.
_PLACE = "select"


def ddl_texts(event: CapturedEvent) -> Mapping[str, str]:
    """Return those texts of an event that are others without values, by their columns."""
    if event.context is None:
        texts = {"query": NOT_SHOWN}
        with suppress(SqlSyntaxError):
            texts["query"] = _ddl_of(event, event.query)
    else:
        texts = {
            "query": NOT_SHOWN,
            "context": _innermost(event, event.context),
            "bodies": json.dumps([_in_places(event, body) for body in event.bodies]),
        }
    given = {
        "query": event.query,
        "context": event.context,
        "bodies": json.dumps(list(event.bodies)),
    }
    return {column: text for column, text in texts.items() if text != given[column]}


def _innermost(event: CapturedEvent, context: str) -> str:
    """Return the innermost statement of who called whom, if it is DDL; others may hold values."""
    if match := FUNCTION.match(context):
        return match[0].rstrip("\n")
    for text in quoted_statements(context) if context.startswith(STATEMENT) else ():
        with suppress(SqlSyntaxError):
            return f'{STATEMENT}{_ddl_of(event, text)}"'
    return ""


def _ddl_of(event: CapturedEvent, text: str) -> str:
    """Return the DDL of a text, with what begins, ends and undoes transactions.

    Raises
    ------
    SqlSyntaxError
        when it cannot be read.

    """
    statements = read_statements(event, text)
    kept = [item.text for item in statements if _is_kept(item.tree)]
    if len(kept) == len(statements) > 0:
        return text
    return ";\n".join(kept) or NOT_SHOWN


def _in_places(event: CapturedEvent, body: str) -> str:
    """Return the body of a function, each of whose statements is still at its place."""
    try:
        statements = read_statements(event, body)
    except SqlSyntaxError:
        return NOT_SHOWN
    return ";\n".join(item.text if _is_kept(item.tree) else _PLACE for item in statements)


def _is_kept(tree: Tree) -> bool:
    return command_tag(tree) is not None or statement_of(tree)[0] == "TransactionStmt"
