"""Checks that a process's resource usage stays flat: compares the last quarter of a soak with the second one.

The first quarter warms the server up and is not judged. Medians are compared, so that single peaks do not count.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.tools.bench.served import Served

MB = 10**6
LEAST = 8  # samples, so that a quarter has two


class Sample(NamedTuple):
    """What the server holds at one moment: resident bytes, file descriptors, threads."""

    memory: int
    files: int
    threads: int

    @classmethod
    def of(cls, served: Served) -> "Sample":
        """Take a sample now."""
        return cls(served.memory, served.files, served.threads)


class Bound(NamedTuple):
    """How much a value may grow: by `share` of what it was, or by `least` if that is more."""

    share: float
    least: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The medians of the second and the last quarter, and the allowed growth."""

    name: str
    before: float
    after: float
    bound: Bound

    @property
    def allowed(self) -> float:
        """Return the largest growth that counts as flat."""
        return max(self.before * self.bound.share, self.bound.least)

    @property
    def flat(self) -> bool:
        """Whether it grew by no more than allowed."""
        return self.after - self.before <= self.allowed

    def __str__(self) -> str:
        """Return both medians, the growth, and the allowed growth."""
        grown = f"{self.before:.1f} to {self.after:.1f}, {self.after - self.before:+.1f}"
        return f"{self.name}: {grown} (flat up to +{self.allowed:.1f}): {'flat' if self.flat else 'NOT FLAT'}"


# What Python holds is flat (tracemalloc). But the allocator keeps what it once needed for each of some 540 threads,
# until all of them have served the largest requests: after 10 minutes, the process still grows by 1 to 2 MB a minute.
BOUNDS: dict[str, tuple[Callable[[Sample], float], Bound]] = {
    "memory, MB": (lambda sample: sample.memory / MB, Bound(0.1, 24)),
    "file descriptors": (lambda sample: sample.files, Bound(0.1, 16)),
    "threads": (lambda sample: sample.threads, Bound(0.05, 16)),
}


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Compare the quarters; ValueError if there are too few samples."""
    if len(samples) < LEAST:
        raise ValueError(f"{len(samples)} samples are too few to judge; it takes {LEAST}")
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    return [
        Growth(name, statistics.median(map(figure, second)), statistics.median(map(figure, last)), bound)
        for name, (figure, bound) in BOUNDS.items()
    ]
