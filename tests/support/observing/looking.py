"""Look at the status of one source, inside the test's own process."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pgrepl.config.file import load_config
from pgrepl.status import read_status
from tests.support.running.streaming import Streaming


def look(streaming: Streaming, max_lag: timedelta | None = None) -> Any:
    """Return the ``SourceStatus``; a test knows which of its parts must be there."""
    config = load_config(streaming.config)
    (found,) = read_status(config, [config.source(streaming.name)], max_lag).sources
    return found


def positions(streaming: Streaming) -> Any:
    return look(streaming).positions


def problems(streaming: Streaming) -> dict[str, int]:
    """Return the problems found: kind to exit code."""
    return {problem.kind: problem.exit_code for problem in look(streaming).problems}


def apply_spool(streaming: Streaming, *, shards: int = 2, seq: int | None = None) -> None:
    """Move every shard to a segment, the newest by default, as replay does when it has applied."""
    upto = "p.last_seq" if seq is None else str(seq)
    streaming.target.execute(
        "insert into replication.shard_progress as s"
        " (source_id, shard, shard_count, applied_seq, applied_lsn)"
        f" select p.source_id, shard, {shards}, m.seq, m.last_lsn"
        f" from replication.receive_progress p, generate_series(0, {shards} - 1) shard,"
        " lateral (select seq, last_lsn from replication.raw_messages m"
        f"           where m.source_id = p.source_id and seq = {upto} limit 1) m"
        " on conflict (source_id, shard) do update"
        " set applied_seq = excluded.applied_seq, applied_lsn = excluded.applied_lsn",
        "delete from replication.raw_messages m where seq <= (select min(applied_seq)"
        " from replication.shard_progress s where s.source_id = m.source_id)",
    )
