"""Sources that are ready to be received, as in the shorter tests."""

from __future__ import annotations

from tests.support.running.receiving import make_cluster, stream_alone, stream_from

__all__ = ["make_cluster", "stream_alone", "stream_from"]
