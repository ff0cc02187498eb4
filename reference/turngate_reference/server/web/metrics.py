"""Figures for Prometheus, in a registry of their own; labels take their values from small closed sets."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0 as CONTENT_TYPE
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from turngate_reference.server.app import Server
from turngate_reference.server.store import runs
from turngate_reference.server.web.streams import EventStreams

__all__ = ["CONTENT_TYPE", "Metrics"]

_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)


class Metrics:
    """What is counted while the server runs, and what is looked up when it is asked for."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("engine", "outcome")
        self._turns = Counter("turngate_turns", "Turns that have ended.", labels, registry=self._registry)
        self._seconds = Histogram(
            "turngate_turn_seconds", "How long turns took.", ("engine",), registry=self._registry, buckets=_BUCKETS
        )

    def watch(self, core: Server, streams: EventStreams) -> None:
        """Look up what is true of these whenever the figures are asked for."""
        self._registry.register(_Now(core, streams))

    def turn_ended(self, engine: str, outcome: str, seconds: float) -> None:
        """Count a turn; `engine` is the name of a contract, `outcome` one of the three."""
        self._turns.labels(engine, outcome).inc()
        self._seconds.labels(engine).observe(seconds)

    def text(self) -> bytes:
        """Return all figures as they are now, in Prometheus' text format."""
        return generate_latest(self._registry)


class _Now(Collector):
    """What is true at the moment it is asked for."""

    def __init__(self, core: Server, streams: EventStreams) -> None:
        self._core, self._streams = core, streams

    def describe(self) -> Iterable[Metric]:
        """Name nothing in advance, so that registering asks the store for nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Look all up."""
        states = GaugeMetricFamily("turngate_runs", "Runs by state.", labels=("state",))
        for state, count in runs.counts(self._core.store).items():
            states.add_metric((state,), count)
        yield states
        yield GaugeMetricFamily("turngate_slots", "Processes that may run at once.", self._core.dispatcher.slots)
        yield GaugeMetricFamily("turngate_slots_held", "Slots that are held.", self._core.dispatcher.held)
        yield GaugeMetricFamily("turngate_streams_open", "Event streams that are open.", self._streams.open)
