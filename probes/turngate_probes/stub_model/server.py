"""The stub model backend: its script and journal, behind a loopback port that speaks every protocol."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from turngate_probes.stub_model.journal import Egress, Exchange
from turngate_probes.stub_model.listener import Listener
from turngate_probes.stub_model.replies import ReplyRules, Rule


class StubBackend:
    """A model backend for one sandbox, serving while its context is entered. Safe for threads.

    Requests to a model are answered by the script, lists of models and token counts always; what it does not
    know gets 404 and protocol None in the journal. The journal stays readable after the context.
    """

    def __init__(self, port: int = 0) -> None:
        """Choose the port: 0 takes a free one."""
        self._port = port
        self.rules = ReplyRules()
        self._lock = threading.Lock()
        self._exchanges: list[Exchange] = []
        self._egress: list[Egress] = []
        self._counts_egress = True
        self._callbacks: list[Callable[[Exchange], None]] = []
        self._on_egress: list[Callable[[Egress], None]] = []
        self._listener: Listener | None = None

    def __enter__(self) -> Self:
        self._listener = Listener(self, self._port)
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener:
            self._listener.close()

    @property
    def url(self) -> str:
        """The base URL of every protocol, without a path; also the proxy that refuses to leave loopback."""
        if self._listener is None:
            raise RuntimeError("the stub backend serves only while its context is entered")
        return f"http://127.0.0.1:{self._listener.port}"

    def script(self, *rules: Rule) -> None:
        """Answer by these rules from now on: the first match wins; without one, the model says "ok"."""
        self.rules = ReplyRules(rules)

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return every request so far, in order."""
        with self._lock:
            return tuple(self._exchanges)

    def egress(self) -> tuple[Egress, ...]:
        """Return every attempt so far to leave loopback, in order."""
        with self._lock:
            return tuple(self._egress)

    def ignore_egress(self) -> None:
        """Refuse further attempts to leave loopback without counting them, because the caller provokes them."""
        with self._lock:
            self._counts_egress = False

    def on_exchange(self, callback: Callable[[Exchange], None]) -> None:
        """Call `callback` with each exchange from now on, journalled already; the answer waits for it.

        It is called on the thread of that request, so several may run at once.
        """
        with self._lock:
            self._callbacks.append(callback)

    def on_egress(self, callback: Callable[[Egress], None]) -> None:
        """Call `callback` with each further attempt to leave loopback, counted or not; the refusal waits for it."""
        with self._lock:
            self._on_egress.append(callback)

    def note(self, entry: Exchange | Egress) -> None:
        """Journal an entry, then call the callbacks for its kind."""
        with self._lock:
            if isinstance(entry, Egress):
                self._egress += [entry] if self._counts_egress else []
                leaving = tuple(self._on_egress)
            else:
                self._exchanges.append(entry)
                callbacks = tuple(self._callbacks)
        if isinstance(entry, Egress):
            for told in leaving:
                told(entry)
        else:
            for callback in callbacks:
                callback(entry)


@contextmanager
def refused_port() -> Iterator[int]:
    """Hold a loopback port on which nothing listens; it is bound, so that no other process gets it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port
