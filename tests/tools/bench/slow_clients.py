"""How long `/healthz` takes while clients send or read slowly."""

import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, Target, measured
from tests.tools.bench.served import Served, make_home, serving

CLIENTS = Tally(full=2000, short=20)
ASKED = Tally(full=200, short=5)
DESCRIPTORS = 100  # for everything except the clients
HOST = b"Host: localhost\r\n"
KINDS = {
    "half-sent headers": b"GET /healthz HTTP/1.1\r\n" + HOST,
    "half-sent bodies": b"POST /v1/runs HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n{",
    "idle": b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "unread answers": b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n",
}
ROWS = tuple(
    Row(
        f"slow-clients.{kind.replace(' ', '-')}",
        f"`/healthz` with 2,000 slow clients ({kind})",
        "ms",
        "without them",
        Target(100),
    )
    for kind in KINDS
)
ANSWERED = ("idle", "unread answers")  # these get a response before the measurement


def bench(*, short: bool) -> Iterator[Measured]:
    """Measure `/healthz`, alone and with each kind of client, on a new server each time."""
    count, asked = CLIENTS.of(short=short), ASKED.of(short=short)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + DESCRIPTORS), hard))
    alone: list[float] = []
    for kind, sent in {"": b"", **KINDS}.items():
        with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
            served = opened.enter_context(serving(Path(folder) / "data", make_home(Path(folder))))
            for _ in range(count if sent else 0):
                client = opened.enter_context(socket.create_connection(("127.0.0.1", served.port)))
                client.sendall(sent)
                if kind in ANSWERED:
                    client.recv(1)
            taken = [_health(served) for _ in range(asked)]
        print(f"  {kind or 'alone'}: {max(taken):.1f} ms at worst")
        if sent:
            yield measured(f"slow-clients.{kind.replace(' ', '-')}", taken, alone)
        else:
            alone = taken


def _health(served: Served) -> float:
    """Return the milliseconds of one request, connection included."""
    start = time.perf_counter()
    status, _ = served.ask("GET", "/healthz")
    if status != 200:
        raise RuntimeError(f"GET /healthz: {status}")
    return (time.perf_counter() - start) * 1000
