"""What a JVM says on standard error becomes lines of our log."""

from __future__ import annotations

import io
import json
import logging

from pgrepl.log import configure_logging
from pgrepl.spark.jvm_output import JvmOutput

SAID = (
    b"WARNING: Using incubator modules: jdk.incubator.vector\n"
    b"2026-01-01T00:00:00.000 ERROR Utils: no space\n\n\tat x.y(Z.java)\n\xff"
)


def test_lines_of_a_jvm_are_events_of_the_log_and_its_noise_is_none(caplog):
    with caplog.at_level(logging.WARNING):
        JvmOutput(io.BytesIO(SAID)).wait()
    assert [record.getMessage() for record in caplog.records] == [
        "2026-01-01T00:00:00.000 ERROR Utils: no space",
        "\tat x.y(Z.java)",
        "\N{REPLACEMENT CHARACTER}",
    ]


def test_json_log_stays_json_whatever_a_jvm_says():
    written = io.StringIO()
    logger = logging.getLogger("pgrepl")
    before = logger.handlers, logger.propagate, logger.level
    try:
        configure_logging("json", is_verbose=False, stream=written)
        JvmOutput(io.BytesIO(SAID)).wait()
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])
    events = [json.loads(line) for line in written.getvalue().splitlines()]
    assert len(events) == SAID.count(b"\n") - 1
