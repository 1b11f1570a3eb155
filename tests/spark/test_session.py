"""Sessions are built from the configuration."""

from __future__ import annotations

import json
import subprocess
import sys

SECRET = "s3cr3t \\\\ : =#!ü"
PROGRAM = """
import json, sys
from pgrepl.config import SparkConfig
from pgrepl.spark import build_session
conf = json.load(sys.stdin)
session = build_session(SparkConfig(master="local[1]", conf=conf), "test")
print(json.dumps({key: session.conf.get(key) for key in conf}))
session.stop()
"""


def test_settings_arrive_as_they_were_written_the_secret_ones_too():
    conf = {
        "spark.some.password": SECRET,
        "spark.some.plain": "a b",
        "spark.sql.shuffle.partitions": "7",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(conf),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == conf
