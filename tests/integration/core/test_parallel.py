"""Workers that are processes of our own."""

from __future__ import annotations

import linecache
import os

from pgrepl.background import BackgroundCall
from pgrepl.config.model import SparkConfig
from pgrepl.errors import PgreplError
from pgrepl.parallel import start_workers

LOCAL = SparkConfig(master="local[2]")


def test_results_come_in_the_order_of_the_arguments():
    workers = start_workers(len, LOCAL, "test", 3)
    try:
        assert workers.jobs == 3
        assert workers.run(["", "a", "bb", "ccc", "dddd"]) == [0, 1, 2, 3, 4]
        assert workers.run([[None], []]) == [1, 0]
    finally:
        workers.stop()


def test_several_run_at_once_in_processes_of_their_own(tmp_path):
    workers = start_workers(os.listdir, LOCAL, "test", None)
    try:
        assert workers.jobs == 2
        assert workers.run([str(tmp_path)] * 4) == [[]] * 4
    finally:
        workers.stop()


def test_module_in_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "pickle.py").write_text("open('ran', 'w')\nraise SystemExit")
    monkeypatch.chdir(tmp_path)
    workers = start_workers(len, LOCAL, "test", 1)
    try:
        assert workers.run(["abc"]) == [3]
    finally:
        workers.stop()
    assert not (tmp_path / "ran").exists()


def test_worker_that_dies_is_an_error_in_its_place():
    workers = start_workers(os._exit, LOCAL, "test", 1)
    try:
        (outcome,) = workers.run([7])
    finally:
        workers.stop()
    assert isinstance(outcome, PgreplError)
    assert outcome.message == "a worker process ended without a result, with exit code 7"


def test_stop_ends_a_worker_in_the_middle_of_its_work(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    workers = start_workers(linecache.getlines, LOCAL, "test", 1)
    call = BackgroundCall(lambda: workers.run([str(fifo)]))
    with fifo.open("wb"):  # which waits until the worker reads
        workers.stop()
        (outcome,) = call.result()
    assert isinstance(outcome, PgreplError)
