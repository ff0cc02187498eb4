"""Breaks promises of the server on purpose, to show that the rounds notice."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from turngate_reference.server import app
from turngate_reference.server.orchestrator import headless
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import IdempotentRequest


def apply(name: str) -> None:
    """Break one promise in this process; an empty name breaks none."""
    if name:
        SABOTAGES[name]()


def _no_recovery() -> None:
    """Skip the recovery of what an earlier server left."""
    vars(app)["recover"] = lambda *_: None


def _twice() -> None:
    """Run each headless turn twice."""
    attempt = vars(headless)["attempt"]

    def both(*args: Any, **kwargs: Any) -> Any:
        attempt(*args, **kwargs)
        return attempt(*args, **kwargs)

    vars(headless)["attempt"] = both


def _no_transactions() -> None:
    """Commit each statement separately, so that a crash leaves half-finished transactions."""

    @contextmanager
    def loose(store: Store) -> Iterator[sqlite3.Connection]:
        with store._turn_to_write():
            yield store._writer
        store.wake()

    Store.writing = loose  # type: ignore[method-assign, assignment]


def _no_idempotency() -> None:
    """Forget which requests were answered before."""
    IdempotentRequest.answer = lambda *_: None  # type: ignore[method-assign]
    IdempotentRequest.keep = lambda *_: None  # type: ignore[method-assign]


SABOTAGES: dict[str, Callable[[], None]] = {
    "no-recovery": _no_recovery,
    "twice": _twice,
    "no-transactions": _no_transactions,
    "no-idempotency": _no_idempotency,
}
