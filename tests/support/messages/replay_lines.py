"""Changes as wal2json prints them, with old keys, for replay's tests without a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pgrepl.decoding.changes import TableChanges
from pgrepl.decoding.shape import Column, Shape, ValueKind
from pgrepl.decoding.wal2json import Wal2JsonPayload
from tests.support.messages.lines import TIME


def column(name: str, kind: ValueKind = "text", *, is_generated: bool = False) -> Column:
    return Column(name, kind, is_generated, is_identity_always=False, staging_type=None)


def shape(*columns: Column, key: tuple[str, ...] = ()) -> Shape:
    return Shape(schema="shop_public", name="t", relkind="r", columns=columns, key=key)


def entries(values: Mapping[str, object]) -> str:
    return ",".join(
        f'{{"name":{json.dumps(name, ensure_ascii=False)},'
        f'"value":{json.dumps(value, ensure_ascii=False)}}}'
        for name, value in values.items()
    )


def line(
    action: str,
    new: Mapping[str, object] | None = None,
    old: Mapping[str, object] | None = None,
    *,
    names: tuple[str, str] = ("public", "t"),
) -> bytes:
    schema, table = (json.dumps(name, ensure_ascii=False) for name in names)
    text = (
        f'{{"action":"{action}","xid":7,"timestamp":"{TIME}","origin":0,"lsn":"0/15087C8",'
        f'"schema":{schema},"table":{table}'
    )
    if new is not None:
        text += f',"columns":[{entries(new)}]'
    if old is not None:
        text += f',"identity":[{entries(old)}]'
    return (text + "}").encode()


def read(shape: Shape | None, lines: Sequence[bytes]) -> TableChanges:
    """Read lines of table ``t`` as a task does."""
    return Wal2JsonPayload("UTF8").read_changes(("public", "t"), shape, lines)
