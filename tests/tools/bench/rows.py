"""The rows of the bench table: what is measured, against which peer, and with which target.

To add a row:

1. Declare a `Row` in `ROWS` of a bench module. A new module also goes into `BENCHES` of `benches.py`.
2. Let the module's `bench` yield `measured(name, samples, samples of the peer)`, in the short form, too.
3. Put the row on the page, as "not measured": `make speed ARGS=--render`. `make speed` fills it in.
"""

import math
import statistics
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct


class Measure(StrEnum):
    """What a target limits: the figure itself, the figure divided by the peer's, or their difference."""

    FIGURE = "figure"
    RATIO = "ratio"
    ADDED = "added"


class Target(Struct, frozen=True):
    """A limit: the highest value that meets it, or the lowest if `least`."""

    limit: float
    of: Measure = Measure.FIGURE
    least: bool = False

    def met(self, value: float) -> bool:
        """Whether a value meets the limit."""
        return value >= self.limit if self.least else value <= self.limit


class Row(Struct, frozen=True):
    """One row: a stable name such as `reading.codex`, what it measures, its unit, its peer and its target.

    `peer` says what the peer is (empty: there is none). A row without a target is shown for comparison.
    """

    name: str
    what: str
    unit: str
    peer: str = ""
    target: Target | None = None

    @property
    def of(self) -> Measure:
        """What decides about this row, and what is compared with an older measurement."""
        if self.target is not None:
            return self.target.of
        return Measure.RATIO if self.peer else Measure.FIGURE


class Samples(Struct, frozen=True, forbid_unknown_fields=True):
    """The median, the quartiles and the number of some samples."""

    median: float
    low: float
    high: float
    count: int


class Measured(Struct, frozen=True, forbid_unknown_fields=True):
    """What a bench measured for a row, in the row's unit, and for the row's peer in the same run."""

    name: str
    figure: Samples
    peer: Samples | None = None

    def value(self, of: Measure) -> float:
        """Return the figure, or compare it with the peer."""
        return _compared(self.figure.median, self.peer.median, of) if self.peer else self.figure.median

    def spread(self, of: Measure) -> tuple[float, float]:
        """Return the lowest and the highest likely value."""
        if self.peer is None:
            return self.figure.low, self.figure.high
        return _compared(self.figure.low, self.peer.high, of), _compared(self.figure.high, self.peer.low, of)


UNCERTAIN = 0.05


def measured(name: str, figures: Sequence[float], peers: Sequence[float] = ()) -> Measured:
    """Return a row's measurement; `peers` are empty for a row without a peer.

    A single figure counts as uncertain by 5 %, a single peer as exact.
    """
    return Measured(name, _samples(figures, UNCERTAIN), _samples(peers, 0) if peers else None)


def _samples(values: Sequence[float], uncertain: float) -> Samples:
    middle = statistics.median(values)
    low, high = middle * (1 - uncertain), middle * (1 + uncertain)
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Samples(_short(middle), _short(low), _short(high), len(values))


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _compared(figure: float, peer: float, of: Measure) -> float:
    match of:
        case Measure.FIGURE:
            return figure
        case Measure.ADDED:
            return figure - peer
        case Measure.RATIO:
            return figure / peer if peer else math.inf
