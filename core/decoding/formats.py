"""The formats that there are. Another one is a folder here and a line in each table below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.decoding.pgoutput import PgoutputPayload, PgoutputStream, UpsertPayload
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.decoding.wal2json import Wal2JsonPayload, Wal2JsonStream
from pgrepl.decoding.wal2json.short import FORMAT as SHORT_FORMAT
from pgrepl.errors import SpoolError

__all__ = ["payload_decoder", "stream_decoder"]

#: By the name of the output plugin, which is also the format that a row of the spool says.
_STREAMS: Mapping[str, Callable[[], StreamDecoder]] = {
    "pgoutput": PgoutputStream,
    "wal2json": Wal2JsonStream,
}
#: Formats that others read too: their payloads say themselves which they are.
_READ_AS = {SHORT_FORMAT: "wal2json"}
#: Made for the encoding of a row.
_PAYLOADS: Mapping[str, Callable[[str], PayloadDecoder]] = {
    "pgoutput": PgoutputPayload,
    "upsert": UpsertPayload,
    "wal2json": Wal2JsonPayload,
}


def stream_decoder(plugin: str) -> StreamDecoder:
    """Return what reads the messages of an output plugin."""
    return _STREAMS[plugin]()


def payload_decoder(name: str, encoding: str) -> PayloadDecoder:
    """Return what reads the payloads of a format, in an encoding as PostgreSQL names it.

    Raises
    ------
    SpoolError
        when this version of pgrepl does not know the format.

    """
    return _decoder(_READ_AS.get(name, name), encoding)


@cache
def _decoder(name: str, encoding: str) -> PayloadDecoder:
    make = _PAYLOADS.get(name)
    if make is None:
        raise SpoolError(
            f'the spool has rows in format "{name}", which this version of pgrepl cannot read',
            hint="Upgrade pgrepl on the machine that replays.",
        )
    return make(encoding)
