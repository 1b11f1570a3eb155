"""Which statement an event is about. Pure.

The triggers know the client's whole message, and, for DDL from inside a function, PostgreSQL's
account of the calls. The statement is cut out of these and must agree with what the catalogue
reported: its tag, and the name of what it made or changed. Anything less than that is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.command_tags import command_tag
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse, to_sql
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["UnknownStatementError", "find_statement"]

_TRANSACTION = pg_query_pb2.TransactionStmtKind
_BOUNDARIES = frozenset(
    {
        _TRANSACTION.TRANS_STMT_BEGIN,
        _TRANSACTION.TRANS_STMT_COMMIT,
        _TRANSACTION.TRANS_STMT_START,
    }
)
_FUNCTION = re.compile(r'SQL function "(?:.*?)" statement (\d+)(?:\n|$)', re.DOTALL)
_STATEMENT = 'SQL statement "'


class UnknownStatementError(ValueError):
    """The statement of an event cannot be told for certain."""


def find_statement(event: CapturedEvent) -> Tree:
    """Return the statement that ran.

    Raises
    ------
    UnknownStatementError
        when the texts do not tell it, or tell something else than the tag.

    """
    if event.context is None:
        return _pick(event, event.query, is_repeated=False)
    if match := _FUNCTION.match(event.context):
        return _in_function(event, int(match[1]))
    if event.context.startswith(_STATEMENT):
        return _in_context(event, event.context)
    raise UnknownStatementError("it came from inside a function that shows no statement")


def _in_context(event: CapturedEvent, context: str) -> Tree:
    """Take the innermost statement; a quote and the end of a line may also be inside it."""
    for text in _quoted(context):
        try:
            return _pick(event, text, is_repeated=True)
        except SqlSyntaxError:
            continue
    raise UnknownStatementError("the statement inside a function cannot be read")


def _quoted(context: str) -> Iterator[str]:
    text = context.removeprefix(_STATEMENT)
    for match in re.finditer(r'"(?=\n|$)', text):
        yield text[: match.start()]


def _in_function(event: CapturedEvent, number: int) -> Tree:
    """Take a statement of an SQL function; functions of one name may have several bodies."""
    found: dict[str, Tree] = {}
    for body in event.bodies:
        try:
            statements = parse(body)
        except SqlSyntaxError:
            continue
        if number <= len(statements) and command_tag(statements[number - 1]) == event.tag:
            found[to_sql(statements[number - 1])] = statements[number - 1]
    if len(found) != 1:
        raise UnknownStatementError(
            "it came from inside an SQL function of a name that several functions have"
            if found
            else "it came from inside an SQL function whose body does not show it"
        )
    return next(iter(found.values()))


def _pick(event: CapturedEvent, text: str, *, is_repeated: bool) -> Tree:
    statements = _surviving(parse(text))
    if not statements:
        raise UnknownStatementError("the client's message holds no DDL")
    index = 0 if event.ordinal is None else event.ordinal - 1
    if is_repeated:
        # A loop runs the same text again and again, each time to its end.
        index %= len(statements)
    if index >= len(statements) or (event.ordinal is None and len(statements) > 1):
        raise UnknownStatementError("the client's message holds other statements than those seen")
    if command_tag(statements[index]) != event.tag:
        raise UnknownStatementError(
            f"the client's message shows {command_tag(statements[index])} in the place of"
            f" {event.tag}"
        )
    return statements[index]


def _surviving(statements: Sequence[Tree]) -> list[Tree]:
    """Return the DDL of a message without what the message itself rolled back."""
    kept: list[Tree] = []
    begun = 0
    savepoints: dict[str, int] = {}
    for tree in statements:
        kind, statement = statement_of(tree)
        if command_tag(tree) is not None:
            kept.append(tree)
        elif kind == "TransactionStmt":
            if statement.kind in _BOUNDARIES:
                begun, savepoints = len(kept), {}
            elif statement.kind == _TRANSACTION.TRANS_STMT_ROLLBACK:
                del kept[begun:]
                savepoints = {}
            elif statement.kind == _TRANSACTION.TRANS_STMT_SAVEPOINT:
                savepoints[statement.savepoint_name] = len(kept)
            elif statement.kind == _TRANSACTION.TRANS_STMT_ROLLBACK_TO:
                del kept[savepoints.get(statement.savepoint_name, len(kept)) :]
    return kept
