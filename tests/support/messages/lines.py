"""Lines as wal2json prints them, for tests without a server."""

from __future__ import annotations

import json

from pgrepl.lsn import Lsn

TIME = "2026-11-16 02:26:30.170192+00"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def begin(commit_lsn: int, *, action: str = "B", at: str = TIME) -> bytes:
    """Make a begin line of a transaction whose commit record is 0x30 bytes long."""
    lsn, end = Lsn(commit_lsn), Lsn(commit_lsn + 0x30)
    return (
        f'{{"action":"{action}","xid":7,"timestamp":"{at}","origin":0,'
        f'"lsn":"{lsn}","nextlsn":"{end}"}}'
    ).encode()


def commit(commit_lsn: int) -> bytes:
    return begin(commit_lsn, action="C")


def change(action: str, table: str, *, schema: str = "public", **columns: object) -> bytes:
    """Make a change; a column's value is a text, or what JSON makes of it."""
    listed = ",".join(
        f'{{"name":{_text(name)},"value":{json.dumps(value, ensure_ascii=False)}}}'
        for name, value in columns.items()
    )
    return (
        f'{{"action":"{action}","xid":7,"timestamp":"{TIME}","origin":0,"lsn":"0/15087C8",'
        f'"schema":{_text(schema)},"table":{_text(table)},"columns":[{listed}]}}'
    ).encode(errors="surrogatepass")


def frame(message: bytes, start: int = 0) -> memoryview:
    """Wrap a message as the server does."""
    return memoryview(b"w" + start.to_bytes(8, "big") + bytes(16) + message)


def transaction(commit_lsn: int, *changes: bytes) -> list[memoryview]:
    """Make the frames of a whole transaction."""
    return [
        frame(begin(commit_lsn)),
        *map(frame, changes),
        frame(commit(commit_lsn), commit_lsn + 0x30),
    ]
