"""What the clients of a soak measure: the time of each operation, and every error."""

import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Figures:
    """Seconds by operation, runs that finished, and how often each error came; clients write from their own threads."""

    def __init__(self) -> None:
        self.runs = 0
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self._lock, self._closed = threading.Lock(), False

    @contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        """Measure a block as an operation; one that raises is not counted."""
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
        """Take nothing more: from here on the server is ended, and clients fail because of that."""
        with self._lock:
            self._closed = True

    def run_finished(self) -> None:
        """Count a run that came to the end it should."""
        with self._lock:
            self.runs += not self._closed

    def lines(self) -> Iterator[str]:
        """Return the table of operations in milliseconds, and then the errors."""
        yield f"{'operation':24} {'count':>8} {'p50 ms':>9} {'p95 ms':>9} {'p99 ms':>9}"
        for operation, seconds in sorted(self.seconds.items()):
            columns = (f"{percentile(seconds, share) * 1000:9.1f}" for share in (50, 95, 99))
            yield f"{operation:24} {len(seconds):8} {' '.join(columns)}"
        yield f"runs finished: {self.runs}"
        yield f"errors: {self.errors.total()}"
        for text, count in self.errors.most_common(20):
            yield f"  {count} x {text}"


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many per cent of the values do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100) - 1, 0)]
