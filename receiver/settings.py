"""How the receiver paces itself. The defaults are what the command uses; tests use smaller ones."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReceiverSettings"]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """Sizes and times."""

    #: The bytes of lines with which a segment is written. Bigger ones compress no better, and cost
    #: the target more: 55 MB by 4 MiB took its session 0.66 CPU seconds, by 1 MiB 0.42, for memory
    #: of that size comes from the kernel page by page each time. A transaction that reaches it is
    #: written in parts.
    segment_bytes: int = 1 * _MIB
    #: How long a segment waits for more transactions, under steady load ...
    gather_s: float = 0.1
    #: ... and when nothing arrives: long enough not to commit each transaction of a burst.
    quiet_s: float = 0.002
    #: When only a few messages were there to read, the next are let gather for so long: to look for
    #: each of them would cost a fifth more of CPU, and take no less time.
    nap_s: float = 0.0001
    #: Reading stops while so much waits for the target, so that memory stays bounded.
    in_flight_bytes: int = 16 * _MIB
    #: How often the source hears from us; a quarter of its wal_sender_timeout if that is less.
    status_s: float = 1.0
    #: A source that says nothing for its own wal_sender_timeout and this longer is taken for dead.
    silence_s: float = 10.0
    #: How often the position moves on when the source has only other databases' traffic.
    idle_position_s: float = 5.0
    #: How often the log says how far we are.
    report_s: float = 10.0
    #: How often the size of the spool is looked up, and after how many bytes at the latest.
    spool_check_s: float = 5.0
    spool_check_bytes: int = 64 * _MIB
    #: SIGTERM ends the receiver within a second; the target may take this for a last commit.
    stop_s: float = 0.6
    #: Attempts to reconnect begin with the first and end with the second.
    backoff_s: float = 0.2
    backoff_limit_s: float = 30.0
    #: How long a server that does not answer is waited for with --once.
    once_patience_s: float = 60.0
    #: How long a receiver that just died may hold its origin before it counts as running.
    predecessor_s: float = 2.0
    #: A source that is so far ahead is not streamed but pulled in chunks (see ``backlog``) ...
    pull_from_bytes: int = 16 * _MIB
    #: ... until it is nearer than this.
    pull_while_bytes: int = 2 * _MIB
    #: How often streaming looks how far ahead the source is, while there is no end of messages.
    pull_check_s: float = 3.0
    #: A chunk ends after so much WAL ...
    pull_window_bytes: int = 128 * _MIB
    #: ... and, after the first one, when it probably has that many bytes of messages ...
    pull_bytes: int = 64 * _MIB
    #: ... or took the source so long to decode, and in any case with this many messages. The first
    #: one is small, so that all others have something to do soon.
    pull_decode_s: float = 3.0
    pull_first_rows: int = 50_000
    pull_max_rows: int = 500_000
    #: Nothing is pulled while each call had to decode so much again.
    pull_again_bytes: int = 1024 * _MIB
    #: A chunk that takes longer to decode holds a transaction too big to be kept: it is streamed.
    pull_patience_s: float = 10.0
    #: Temporary files of a call on the source, where the role may limit them.
    pull_temp_bytes: int = 256 * _MIB
    #: How often the slot itself advances meanwhile.
    pull_advance_s: float = 5.0
    #: While a chunk is sent the source keeps it, and a snapshot: a target that takes nothing of it
    #: for so long is taken for unavailable.
    pull_stall_s: float = 60.0
