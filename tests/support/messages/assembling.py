"""An assembler that asks no catalogue, for tests without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgrepl.config.naming import TableSelection
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.routing import Router


def make_assembler(decoder: StreamDecoder, excluded: Sequence[str], **options: Any) -> Assembler:
    """Return one that stands at 0/50, after segment 5, and takes all tables but those excluded."""
    router = Router(
        decoder=decoder,
        db="db",
        selection=TableSelection.of(["*.*"], excluded),
        codec="utf-8",
        assigned={},
        read_catalogue=list,
    )
    return Assembler(decoder=decoder, router=router, start=Lsn(0x50), last_seq=5, **options)
