"""What was committed on the source stands in the spool, in order, once."""

from __future__ import annotations


def test_committed_changes_arrive_in_order(streaming):
    streaming.source.execute(
        "insert into t values (1, 'one')",
        "update t set note = 'uno' where id = 1",
        "delete from t where id = 1",
    )
    streaming.receive_once()
    assert [line["action"] for line in streaming.lines()] == ["I", "U", "D"]
