"""Reaps adopted processes as soon as they end, for programs in which no other tree may end for a long time."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.process.orphans import reap_adopted
from turngate.process.sessions import LEADERS, STARTING
from turngate.process.signals import heard


@contextmanager
def reaping_adopted() -> Iterator[None]:
    """Reap adopted processes when they end, while the block runs inside `adopting_orphans`.

    The main processes of trees, and children in this program's own session, stay for those who wait for them. Call it
    on the main thread.
    """
    with heard((signal.SIGCHLD,), lambda _: _reap()):
        _reap()  # what has ended before
        yield


def _reap() -> None:
    with STARTING:
        reap_adopted(LEADERS)
