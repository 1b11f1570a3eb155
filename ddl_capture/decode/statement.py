"""Which statement an event is about. Pure.

The triggers know the client's whole message, and, for DDL from inside a function, PostgreSQL's
account of the calls. The statement is cut out of these and must agree with what the catalogue
reported: its tag, and the name of what it made or changed. Anything less than that is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.command_tags import command_tag
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse_texts
from pgrepl.syntax.standard_strings import as_standard
from pgrepl.syntax.statement_kinds import statement_of

__all__ = [
    "FUNCTION",
    "STATEMENT",
    "FoundStatement",
    "UnknownStatementError",
    "find_statement",
    "quoted_statements",
    "read_statements",
]

_TRANSACTION = pg_query_pb2.TransactionStmtKind
_BOUNDARIES = frozenset(
    {
        _TRANSACTION.TRANS_STMT_BEGIN,
        _TRANSACTION.TRANS_STMT_COMMIT,
        _TRANSACTION.TRANS_STMT_START,
    }
)
#: How an account of calls begins: with a statement of an SQL function, or one of another language.
FUNCTION = re.compile(r'SQL function "(?:.*?)" statement ([1-9][0-9]{0,8})(?:\n|$)', re.DOTALL)
STATEMENT = 'SQL statement "'


class UnknownStatementError(ValueError):
    """The statement of an event cannot be told for certain."""


@dataclass(frozen=True, slots=True)
class FoundStatement:
    """A statement, and the text that it was cut out of."""

    tree: Tree
    text: str


def find_statement(event: CapturedEvent) -> FoundStatement:
    """Return the statement that ran.

    Raises
    ------
    UnknownStatementError
        when the texts do not tell it, or tell something else than the tag.

    """
    if event.context is None:
        return _pick(event, event.query, is_repeated=False)
    if match := FUNCTION.match(event.context):
        return _in_function(event, int(match[1]))
    if event.context.startswith(STATEMENT):
        return _in_context(event, event.context)
    raise UnknownStatementError("it came from inside a function that shows no statement")


def _in_context(event: CapturedEvent, context: str) -> FoundStatement:
    """Take the innermost statement; a quote and the end of a line may also be inside it."""
    for text in quoted_statements(context):
        try:
            return _pick(event, text, is_repeated=True)
        except SqlSyntaxError:
            continue
    raise UnknownStatementError("the statement inside a function cannot be read")


def quoted_statements(context: str) -> Iterator[str]:
    """Return what the innermost statement may be; a quote may end a line inside it."""
    text = context.removeprefix(STATEMENT)
    for match in re.finditer(r'"(?=\n|$)', text):
        yield text[: match.start()]


def _in_function(event: CapturedEvent, number: int) -> FoundStatement:
    """Take a statement of an SQL function; functions of one name may have several bodies."""
    found: dict[str, FoundStatement] = {}
    for body in event.bodies:
        try:
            statements = read_statements(event, body)
        except SqlSyntaxError:
            continue
        if number <= len(statements) and command_tag(statements[number - 1].tree) == event.tag:
            found[statements[number - 1].text] = statements[number - 1]
    if len(found) != 1:
        raise UnknownStatementError(
            "it came from inside an SQL function of a name that several functions have"
            if found
            else "it came from inside an SQL function whose body does not show it"
        )
    return next(iter(found.values()))


def read_statements(event: CapturedEvent, text: str) -> list[FoundStatement]:
    """Return the statements of a text, as the session of the event understood it."""
    is_standard = event.settings.get("standard_conforming_strings", "on") == "on"
    given = text if is_standard else as_standard(text)
    return [FoundStatement(tree, part) for tree, part in parse_texts(given)]


def _pick(event: CapturedEvent, text: str, *, is_repeated: bool) -> FoundStatement:
    statements = _surviving(read_statements(event, text))
    if not statements:
        raise UnknownStatementError("the client's message holds no DDL")
    index = 0 if event.ordinal is None else event.ordinal - 1
    if is_repeated:
        # A loop runs the same text again and again, each time to its end.
        index %= len(statements)
    if index >= len(statements) or (event.ordinal is None and len(statements) > 1):
        raise UnknownStatementError("the client's message holds other statements than those seen")
    tag = command_tag(statements[index].tree)
    if tag != event.tag:
        raise UnknownStatementError(f"the client's message shows {tag} in the place of {event.tag}")
    return statements[index]


def _surviving(statements: Sequence[FoundStatement]) -> list[FoundStatement]:
    """Return the DDL of a message without what the message itself rolled back."""
    kept: list[FoundStatement] = []
    begun = 0
    savepoints: dict[str, int] = {}
    for item in statements:
        kind, statement = statement_of(item.tree)
        if command_tag(item.tree) is not None:
            kept.append(item)
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
