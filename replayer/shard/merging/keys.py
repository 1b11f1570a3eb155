"""When two keys are the same, as a condition in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg.sql import SQL, Composable, Composed, Identifier

from pgrepl.decoding.shape import Shape

__all__ = ["is_same_key"]


def is_same_key(
    shape: Shape, key: Sequence[str], left: Iterable[Composable], right: Iterable[Composable]
) -> Composed:
    """Return the condition that two keys are the same, by the types' own equality.

    The search path has PostgreSQL's operators only, not those of extensions.
    """
    conditions = []
    for name, a, b in zip(key, left, right, strict=True):
        schema = shape.by_name[name].equality_schema
        equals = SQL("operator({}.=)").format(Identifier(schema)) if schema else SQL("=")
        conditions.append(SQL("{} {} {}").format(a, equals, b))
    return SQL(" and ").join(conditions)
