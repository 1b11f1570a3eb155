"""Why a schema cannot be copied, and what its owner can do about it."""

from __future__ import annotations

__all__ = ["CodeNeededError", "SchemaError", "UnknownStatementError", "unknown_statement"]


class SchemaError(ValueError):
    """The source's schema cannot be made on the target as it is."""

    hint = "Include what is missing, or exclude the tables that need it, in pgrepl.toml."


class UnknownStatementError(SchemaError):
    """The source's schema has a statement that nobody thought of."""

    hint = (
        "Please report this with what pg_dump prints; until then, exclude the tables in the"
        " schema where it stands in pgrepl.toml."
    )


class CodeNeededError(SchemaError):
    """A table cannot be made without code of the source."""

    hint = (
        "Exclude the table in pgrepl.toml; or, if whoever may change the source's schema may also"
        " run SQL on the target, set trust_code = true for the source there."
    )


def unknown_statement(kind: str) -> UnknownStatementError:
    """Return the error for a kind of statement that is not known."""
    return UnknownStatementError(f"pgrepl does not know a statement of the source's schema: {kind}")
