"""Metrics for Prometheus, in a separate registry; labels take their values from small closed sets."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0 as CONTENT_TYPE

from turngate_reference.server.app import Server
from turngate_reference.server.store import runs
from turngate_reference.server.web.streams import EventStreams

__all__ = ["CONTENT_TYPE", "Metrics"]

_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600)


class Metrics:
    """The counters of a running server, and the gauges that are read on request."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("engine", "outcome")
        self._turns = Counter("turngate_turns", "Total number of ended turns.", labels, registry=self._registry)
        self._seconds = Histogram(
            "turngate_turn_seconds",
            "Duration of turns in seconds.",
            ("engine",),
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._runs = Gauge("turngate_runs", "Runs by state.", ("state",), registry=self._registry)
        self._slots = Gauge(
            "turngate_slots", "Maximum number of engines that run at the same time.", registry=self._registry
        )
        self._held = Gauge("turngate_slots_held", "Slots in use.", registry=self._registry)
        self._open = Gauge("turngate_streams_open", "Open event streams.", registry=self._registry)

    def turn_ended(self, engine: str, outcome: str, seconds: float) -> None:
        """Count a turn; `engine` is the name of a contract, `outcome` one of the three."""
        self._turns.labels(engine, outcome).inc()
        self._seconds.labels(engine).observe(seconds)

    def text(self, core: Server, streams: EventStreams) -> bytes:
        """Return all current metrics in Prometheus' text format."""
        for state, count in runs.counts(core.store).items():
            self._runs.labels(state).set(count)
        self._slots.set(core.owner.slots)
        self._held.set(core.owner.held)
        self._open.set(streams.open)
        return generate_latest(self._registry)
