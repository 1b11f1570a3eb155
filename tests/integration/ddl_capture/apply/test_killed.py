"""Killed in the middle of a transaction with DDL, a replayer begins it again from its start."""

from __future__ import annotations

import os
import signal

import pytest

from pgrepl import failpoint


def killed_following(following, place: str, visits: int) -> int:
    """Follow in a process of its own, which dies at a place, and return how it ended."""
    child = os.fork()
    if child == 0:
        failpoint._armed, failpoint._survived = place, visits - 1
        try:
            following.follow()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status)


@pytest.mark.parametrize("place", ["ddl.statement_run", "ddl.recorded"])
@pytest.mark.parametrize("visits", [1, 2, 3])
def test_transaction_is_applied_whole_or_not_at_all(follow, place, visits):
    following = follow()
    following.run(
        "create schema app; create table app.a (id int primary key, v text);"
        " insert into app.a values (1, 'x'); create table app.old (id int primary key)"
    )
    following.source.execute(
        "begin; insert into app.a values (2, 'y'); alter table app.a add w int default 3;"
        " update app.a set w = 4 where id = 2; alter table app.a rename v to z; drop table app.old;"
        " insert into app.a values (3, 'z', 5); commit"
    )
    following._receive()
    before = following.target.rows("select count(*) from replication.ddl_history")
    assert killed_following(following, place, visits) == signal.SIGKILL
    assert following.target.rows("select id, v from tgt_app.a") == [(1, "x")]
    assert following.target.rows("select count(*) from replication.ddl_history") == before
    following.follow()
    assert following.problems("app") == []
