"""The stub model backend: a loopback port that speaks every protocol, and its script and journal."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from turngate_probes.stub_model.handler import BackendListener
from turngate_probes.stub_model.journal import Egress, Exchange, RequestLog
from turngate_probes.stub_model.replies import ReplyRules, Rule


class StubBackend:
    """A model backend for one sandbox, serving while its context is entered. Safe for threads.

    Requests to a model are answered by the script, lists of models and token counts always; what it does not
    know gets 404 and stands in the journal with protocol None. The journal stays readable after the context.
    """

    def __init__(self) -> None:
        self._journal = RequestLog()
        self._listener: BackendListener | None = None

    def __enter__(self) -> Self:
        self._listener = BackendListener(self._journal, ReplyRules())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._serving.close()

    @property
    def url(self) -> str:
        """Base of every protocol, without a path; also the proxy that refuses to leave loopback."""
        return f"http://127.0.0.1:{self._serving.port}"

    def script(self, *rules: Rule) -> None:
        """Answer by these rules from now on: the first that fits; without one the model says "ok"."""
        self._serving.script = ReplyRules(rules)

    def exchanges(self) -> tuple[Exchange, ...]:
        """Return every request so far, in order."""
        return self._journal.exchanges()

    def egress(self) -> tuple[Egress, ...]:
        """Return every attempt so far to leave loopback, in order."""
        return self._journal.egress()

    def on_exchange(self, callback: Callable[[Exchange], None]) -> None:
        """Call `callback` with each exchange from now on, journalled already; the answer waits for it.

        It is called on the thread of that request, so several may run at once.
        """
        self._journal.listen(callback)

    @property
    def _serving(self) -> BackendListener:
        if self._listener is None:
            raise RuntimeError("the stub backend serves only while its context is entered")
        return self._listener


@contextmanager
def refused_port() -> Iterator[int]:
    """Hold a loopback port on which nothing listens: bound, so that no one else gets it, and no more."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port
