"""What a mask makes of a value: here in Python, for changes, and on the source in SQL, for copies.

Both give the same, which a test holds them to for every kind of mask. A hash is of the value's text
in the encoding of the source, which changes and the source's own functions have alike; nothing is
converted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from psycopg.sql import SQL, Composable, Literal

from pgrepl.config.rules import Mask, Salt
from pgrepl.postgres.connect import Connection

__all__ = ["HASH_DIGITS", "condition", "mask_expression", "mask_value", "rows_of", "set_salts"]

#: Number of characters of a hash.
HASH_DIGITS = 64


def mask_value(mask: Mask, value: bytes | None, codec: str) -> bytes | None:
    """Return what stands for a value; both are texts in the source's encoding, None is a null."""
    if mask.kind == "omit":
        raise AssertionError("nothing stands for an omitted column")
    if value is None or mask.kind == "null":
        return None
    if mask.kind == "constant":
        return mask.text.encode(codec)
    if mask.salt is None:
        raise AssertionError("a mask is resolved before it is used")
    return hashlib.sha256(mask.salt.text.encode() + value).hexdigest().encode()


def mask_expression(mask: Mask, column: Composable) -> Composable:
    """Return the same as an expression for the source, of the column's type."""
    if mask.kind == "omit":
        raise AssertionError("nothing stands for an omitted column")
    if mask.kind == "null":
        # Of the type of the column, without naming that.
        return SQL("case when false then {} end").format(column)
    if mask.kind == "constant":
        # A literal without a type takes that of the column.
        return SQL("case when {0} is null then {0} else {1} end").format(column, Literal(mask.text))
    if mask.salt is None:
        raise AssertionError("a mask is resolved before it is used")
    return SQL(
        "case when {0} is not null then encode(sha256(convert_to(current_setting({1}), 'UTF8')"
        " || convert_to({0}::text, getdatabaseencoding())), 'hex') end"
    ).format(column, Literal(mask.salt.setting))


def rows_of(table: Composable, where: str) -> Composable:
    """Return the rows of a table for which an expression is true, named t, as a part of FROM."""
    if not where:
        return SQL("only {} as t").format(table)
    # Names of columns in the expression must not be taken for those of what is joined.
    return SQL("(select f.*, f.ctid, f.xmin from only {} as f where {}) as t").format(
        table, condition(where)
    )


def condition(where: str) -> Composable:
    """Return the expression of a rule as a condition; a comment at its end ends with the line."""
    return SQL("({}\n)").format(SQL(where))


def set_salts(connection: Connection, salts: Iterable[Salt]) -> None:
    """Give a session on the source the salts that the expressions refer to.

    As parameters, which no view of the server shows.
    """
    for salt in salts:
        connection.execute("select set_config(%s, %s, false)", (salt.setting, salt.text))
