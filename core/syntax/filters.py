"""Which columns the expression of a filter reads. Pure."""

from __future__ import annotations

from pgrepl.syntax.parse import SqlSyntaxError, parse_one, walk

__all__ = ["filter_columns"]

#: What the tree of a SELECT has that is nothing but a value.
_OF_ONE_VALUE = frozenset({"target_list", "limit_option", "op"})


def filter_columns(where: str) -> frozenset[str]:
    """Return the columns that an expression names.

    Whether it is one that a filter can have, PostgreSQL is asked; here only what could make other
    SQL of it than an expression is refused.

    Raises
    ------
    SqlSyntaxError
        when it is no expression, or names columns in another way than by their names alone.

    """
    select = parse_one(f"select (\n{where}\n)").select_stmt
    named = {field.name for field, _ in select.ListFields()}
    if not named <= _OF_ONE_VALUE or len(select.target_list) != 1:
        raise SqlSyntaxError("it is no expression")
    target = select.target_list[0].res_target
    if target.name:
        raise SqlSyntaxError("it is no expression")
    names: set[str] = set()
    for part in walk(target):
        if part.DESCRIPTOR.name != "ColumnRef":
            continue
        if len(part.fields) != 1 or not part.fields[0].HasField("string"):
            raise SqlSyntaxError("it names columns otherwise than by their names alone")
        names.add(part.fields[0].string.sval)
    return frozenset(names)
