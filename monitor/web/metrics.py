"""A snapshot as Prometheus reads it: names, units and labels by its conventions.

Gauges of a source that does not answer are missing rather than stale; ``pgrepl_source_up`` says so.
LSNs are no metrics: beyond 2^53 a float does not hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from pgrepl import __version__
from pgrepl.monitor.snapshot import Snapshot
from pgrepl.monitor.web.source_metrics import COUNTERS, GAUGES, Measure
from pgrepl.status import SourceStatus
from pgrepl.store.monitoring.counters import DURATIONS_S, BatchCounter

__all__ = ["Metrics"]

_INFINITY = "+Inf"


class Metrics:
    """Collects the metrics of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Take what is to be told."""
        self._snapshot = snapshot
        status = snapshot.status if snapshot.is_up else None
        self._sources: Iterable[SourceStatus] = () if status is None else status.sources

    def collect(self) -> Iterator[Metric]:
        """Return every metric, those too that have no sample now."""
        yield from self._own()
        for measure in GAUGES:
            gauge = GaugeMetricFamily(measure.name, measure.meaning, labels=_labels(measure))
            for labels, value in self._samples(measure):
                gauge.add_metric(labels, value)
            yield gauge
        for measure in COUNTERS:
            counter = CounterMetricFamily(measure.name, measure.meaning, labels=_labels(measure))
            for labels, value in self._samples(measure):
                counter.add_metric(labels, value)
            yield counter
        yield self._durations()

    def _own(self) -> Iterator[Metric]:
        snapshot = self._snapshot
        build = GaugeMetricFamily("pgrepl_build_info", "The version of pgrepl.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield GaugeMetricFamily(
            "pgrepl_up",
            "Whether the target answered the last look; without it nothing else is told.",
            value=snapshot.is_up,
        )
        at = snapshot.at
        refreshed = GaugeMetricFamily(
            "pgrepl_last_refresh_timestamp_seconds",
            "When all else here was read from the servers.",
        )
        if at is not None:
            refreshed.add_metric([], at.timestamp())
        yield refreshed
        yield GaugeMetricFamily(
            "pgrepl_refresh_duration_seconds",
            "How long the last look took.",
            value=snapshot.seconds,
        )
        replayer = GaugeMetricFamily("pgrepl_replayer_up", "Whether a replayer is connected.")
        known = [source.target for source in self._sources if source.target is not None]
        if known:
            replayer.add_metric([], bool(known[0].sessions.get("replay")))
        yield replayer

    def _samples(self, measure: Measure) -> Iterator[tuple[list[str], float]]:
        for source in self._sources:
            for labels, value in measure.read(source):
                if value is not None:
                    yield [source.name, *labels], float(value)

    def _durations(self) -> Metric:
        family = HistogramMetricFamily(
            "pgrepl_batch_duration_seconds",
            "How long batches took to apply; a serial one has DDL or TRUNCATE.",
            labels=["source", "kind"],
        )
        for source in self._sources:
            for counter in source.target.batches if source.target is not None else ():
                family.add_metric(
                    [source.name, counter.kind],
                    buckets=list(_cumulated(counter)),
                    sum_value=counter.seconds,
                )
        return family


def _labels(measure: Measure) -> list[str]:
    return ["source", *measure.labels]


def _cumulated(counter: BatchCounter) -> Iterator[tuple[str, float]]:
    total = 0
    limits = [*map(str, DURATIONS_S), _INFINITY]
    for limit, count in zip(limits, counter.durations, strict=True):
        total += count
        yield limit, total
