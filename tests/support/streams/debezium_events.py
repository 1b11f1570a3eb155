"""What a real Debezium sent, recorded: see tests/fixtures/debezium/README.md."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures" / "debezium"


def recorded(name: str) -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Return topic, key and value of the records of a run."""
    for line in (FIXTURES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        decode = base64.b64decode if name == "avro" else str.encode
        key, value = (None if record[k] is None else decode(record[k]) for k in ("key", "value"))
        yield record["topic"], key, value
