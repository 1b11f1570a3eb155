"""Which transactions a copy waits for."""

from __future__ import annotations

from pgrepl.resync.open_transactions import Holder, still_suspect

SESSION, OTHER, PREPARED = Holder(1, None), Holder(2, None), Holder(None, "x")


def test_only_who_still_runs_and_of_whom_nothing_is_proved_is_waited_for():
    suspects = {"700": SESSION, "701": OTHER, "702": PREPARED, "703": Holder(3, None)}
    running = {"700": SESSION, "701": OTHER, "702": PREPARED, "704": Holder(4, None)}
    assert still_suspect(suspects, {OTHER, PREPARED}, running) == {"700": SESSION}


def test_session_that_has_another_transaction_by_now_proves_nothing_and_need_not():
    assert still_suspect({"700": SESSION}, {SESSION}, {"705": SESSION}) == {}
