"""Sessions are built from the configuration."""

from __future__ import annotations

import json
import subprocess
import sys

SECRET = "s3cr3t \\\\ : =#!ü"
PROGRAM = """
import json, sys
from pgrepl.config.model import SparkConfig
from pgrepl.spark.session import build_session
conf = json.load(sys.stdin)
session = build_session(SparkConfig(master="local[1]", conf=conf), "test")
print(json.dumps({key: session.conf.get(key) for key in conf}))
session.stop()
"""
TASK_PROGRAM = """
from pgrepl.config.model import SparkConfig
from pgrepl.spark.session import build_session
session = build_session(SparkConfig(master="local[1]"), "test")
print(session.sparkContext.parallelize([1], 1).map(lambda x: x + 1).collect())
session.stop()
"""
UI_PROGRAM = """
import json, sys
from urllib.request import urlopen
from pgrepl.config.model import SparkConfig
from pgrepl.spark.session import build_session
conf = {"spark.ui.enabled": "true", "spark.ui.port": "0", **json.load(sys.stdin)}
session = build_session(SparkConfig(master="local[1]", conf=conf), "test")
context = session.sparkContext
api = f"/api/v1/applications/{context.applicationId}/environment"
for page in ("/environment/", api):
    print(urlopen(context.uiWebUrl + page).read().decode())
session.stop()
"""


def test_settings_arrive_as_they_were_written_the_secret_ones_too():
    conf = {
        "spark.some.password": SECRET,
        "spark.some.url": f"postgresql://ada:{SECRET}@db/shop",
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


def test_ui_shows_settings_but_no_password_under_whatever_name():
    conf = {
        "spark.some.password": "s3cr3t",
        "spark.some.url": "postgresql://ada:s3cr3t@db/shop",
        "spark.some.options": "-Duser=ada -Dpwd=s3cr3t",
        "spark.some.plain": "of no importance",
    }
    done = subprocess.run(
        [sys.executable, "-c", UI_PROGRAM],
        input=json.dumps(conf),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "of no importance" in done.stdout
    assert "spark.some.url" in done.stdout
    assert "s3cr3t" not in done.stdout + done.stderr


def test_task_imports_nothing_from_the_folder_where_the_program_was_started(tmp_path):
    (tmp_path / "socketserver.py").write_text("open('ran', 'w')\nraise SystemExit")
    done = subprocess.run(
        [sys.executable, "-P", "-c", TASK_PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (tmp_path / "ran").exists()
    assert (done.returncode, done.stdout) == (0, "[2]\n"), done.stderr
