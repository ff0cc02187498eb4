"""What the clients of a soak measure: the duration of each operation, and all errors."""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Figures:
    """Durations by operation, finished runs, and error counts; thread-safe for the clients."""

    def __init__(self) -> None:
        self.runs = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self._lock, self._closed = threading.Lock(), False

    @contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        """Time the block as an operation; if it raises, it isn't counted."""
        start = time.perf_counter()
        yield
        taken = time.perf_counter() - start
        with self._lock:
            if not self._closed:
                self.seconds[operation].append(taken)

    def error(self, text: str) -> None:
        """Count an error."""
        with self._lock:
            if not self._closed:
                self.errors[text] += 1

    def close(self) -> None:
        """Accept nothing more: the server is being stopped, so clients will fail."""
        with self._lock:
            self._closed = True

    def run_finished(self) -> None:
        """Count a run that ended as expected."""
        with self._lock:
            self.runs += not self._closed

    def lines(self) -> Iterator[str]:
        """Return the table of operations in milliseconds, followed by the errors."""
        yield f"{'operation':24} {'count':>8} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9}"
        for operation, seconds in sorted(self.seconds.items()):
            columns = (f"{percentile(seconds, share) * 1000:9.1f}" for share in (50, 95, 99))
            yield f"{operation:24} {len(seconds):8} {' '.join(columns)}"
        yield f"runs finished: {self.runs}"
        yield f"errors: {self.errors.total()}"
        for text, count in self.errors.most_common(20):
            yield f"  {count} x {text}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that is at least as large as this percentage of the values."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]
