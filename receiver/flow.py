"""Where a stream of messages stands, and what of it is buffered."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgrepl.receiver.spool.bucket_messages import BucketMessages

__all__ = ["Flow"]


@dataclass(slots=True, kw_only=True)
class Flow:
    """What assembler and buffer share; the compiled core changes it too, see ``flow.c``."""

    #: Every transaction whose commit LSN lies before it was taken whole.
    received: int
    #: What is buffered stays below this.
    limit_bytes: int
    #: No transaction is taken that commits here or later; 0: all are.
    stop: int = 0
    #: Whether messages are lines of wal2json; else they are pgoutput's.
    is_json: bool = False

    is_in_transaction: bool = False
    #: The begin message of the transaction in hand.
    begin: bytes = b""
    #: Where the key of a table most likely stands in its changes.
    key_at: int = 0
    #: Whether the transaction in hand is a segment of its own: its end is not like others'.
    is_alone: bool = False

    #: The size of what is buffered, and of whole transactions alone if there is one in hand.
    byte_count: int = 0
    whole_bytes: int = 0
    #: The begin messages of whole transactions with changes, and where the last of them ends.
    begins: list[bytes] = field(default_factory=list)
    last_end: int = 0

    #: By the key of a table of which no more need be known: where its changes go.
    plain: dict[bytes, BucketMessages] = field(default_factory=dict)
    #: That, or others while a serial transaction is in hand; none outside of transactions.
    known: dict[bytes, BucketMessages] = field(default_factory=dict)

    #: How messages are framed: what comes before one, where its position stands, and which byte a
    #: frame begins with if there are also others; 0: there are not.
    header_bytes: int = 0
    lsn_at: int = 0
    tag: int = 0
