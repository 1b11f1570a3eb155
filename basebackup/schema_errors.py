"""Why a schema cannot be copied, and what its owner can do about it."""

from __future__ import annotations

__all__ = ["SchemaError", "UnknownStatementError"]


class SchemaError(ValueError):
    """The source's schema cannot be made on the target as it is."""

    hint = "Include what is missing, or exclude the tables that need it, in pgrepl.toml."


class UnknownStatementError(SchemaError):
    """The source's schema has a statement that nobody thought of."""

    hint = (
        "Please report this with what pg_dump prints; until then, exclude the tables in the"
        " schema where it stands in pgrepl.toml."
    )
