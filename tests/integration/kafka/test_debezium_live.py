"""A real Debezium, killed in the middle of transactions and started again."""

from __future__ import annotations

import pytest

from tests.support.streams.debezium_live import LiveDebezium
from tests.support.workloads.polling import polling


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_debezium_killed_inside_transactions_leaves_source_and_target_equal(
    source, topics, stream_of, tmp_path
):
    live = LiveDebezium(source, topics, tmp_path, seed=1)
    # In its snapshot, which it begins again; then inside a transaction.
    live.run(die_after=5)
    live.run(die_after=70, transactions=20)
    stream = stream_of(**live.settings())
    stream.sections["replay"] = {"consistency": "batch"}
    stream.write_config()
    stream.bring()
    # Transactions are whole, wherever Debezium died.
    assert stream.rows(live.total) == [(0,)]
    live.run()
    with polling(stream.target, live.total) as seen:
        stream.bring()
    assert set(seen) == {0}
    live.assert_equal(stream)
