"""Events in the form of Debezium's, made by hand: for what no recorded run has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

VERSION = "3.6.3.Final"


def event(
    op: str,
    *,
    table: str = "orders",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    xid: int = 1,
    last_commit: int | None = None,
    lsn: int = 0,
    order: int | None = None,
    snapshot: str = "false",
) -> dict[str, Any]:
    """Return an event without a schema."""
    sequence = [None if last_commit is None else str(last_commit), str(lsn)]
    return {
        "before": before,
        "after": after,
        "source": {
            "version": VERSION,
            "connector": "postgresql",
            "snapshot": snapshot,
            "sequence": json.dumps(sequence),
            "ts_ms": 1_700_000_000_000,
            "schema": "public",
            "table": table,
            "txId": xid,
            "lsn": lsn,
        },
        "transaction": None if order is None else {"id": f"{xid}:{lsn}", "total_order": order},
        "op": op,
        "ts_ms": 1_700_000_000_000,
    }


def end(xid: int, lsn: int, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the END record of a transaction; tables are those of schema public."""
    return {
        "status": "END",
        "id": f"{xid}:{lsn}",
        "event_count": sum(counts.values()),
        "data_collections": [
            {"data_collection": f"public.{table}", "event_count": count}
            for table, count in counts.items()
        ],
        "ts_ms": 1_700_000_000_000,
    }
