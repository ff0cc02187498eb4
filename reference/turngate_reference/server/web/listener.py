"""The socket and the WSGI server: waitress with a thread for each stream, and problem documents for invalid HTTP."""

import json
import socket
import time
from typing import Any

from flask import Flask
from waitress import create_server, wasyncore  # type: ignore[import-untyped]
from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.task import ErrorTask  # type: ignore[import-untyped]

from turngate import EnvironmentFailed
from turngate_reference.server.web.problems import MEDIA_TYPE, document
from turngate_reference.server.web.streams import EventStreams

MAX_HEADERS = 64 * 2**10
MAX_TAKEN = 16 * 2**20  # larger bodies are cut off; up to here a client can finish, and read that it sent too much
SPARE_THREADS = 16
CONNECTIONS = 4000  # the limit of connections: more than slow clients are likely to hold
TICK = 1.0
GRACE = 5.0
_CODES = {413: "BODY_TOO_LARGE", 431: "HEADERS_TOO_LARGE", 500: "INTERNAL_ERROR"}


class _ProblemTask(ErrorTask):  # type: ignore[misc]
    """Answers what waitress can't parse, in the form of all our errors."""

    def execute(self) -> None:
        error = self.request.error
        problem = document(_CODES.get(error.code, "REQUEST_MALFORMED"), str(error.body)[:500])
        body = json.dumps(problem).encode()
        self.status = f"{problem['status']} {problem['title']}"
        self.response_headers.append(("Content-Type", MEDIA_TYPE))
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


class _Channel(HTTPChannel):  # type: ignore[misc]
    error_task_class = _ProblemTask


def address_of(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Return the family and the address of a host to bind; EnvironmentFailed if it has none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise EnvironmentFailed(f"{host!r} is no address of this machine: {error}", "try --host 127.0.0.1") from error
    return family, address


def bound(family: socket.AddressFamily, address: Any) -> socket.socket:
    """Bind an address exclusively; EnvironmentFailed if it is taken."""
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        hint = "choose another --port (0 takes a free one)"
        raise EnvironmentFailed(f"can't listen on {address[0]} port {address[1]}: {error}", hint) from error


def url(listening: socket.socket) -> str:
    """Return the URL at which this machine reaches a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class WebListener:
    """Serves an app on a bound socket; `run` returns after `stop`, which a signal handler may call."""

    def __init__(self, app: Flask, listening: socket.socket, streams: EventStreams) -> None:
        self._streams = streams
        self._stopping = False
        self._map: dict[int, Any] = {}
        self._server = create_server(
            app, map=self._map, sockets=[listening], threads=streams.limit + SPARE_THREADS,
            connection_limit=CONNECTIONS, max_request_body_size=MAX_TAKEN, max_request_header_size=MAX_HEADERS,
            ident="turngate", clear_untrusted_proxy_headers=True,
            channel_request_lookahead=1,  # so that a stream notices when its client has left
        )  # fmt: skip
        self._server.channel_class = _Channel

    def run(self) -> None:
        """Serve until `stop`; then finish open requests, for a few seconds at most, and end all streams."""
        while not self._stopping:
            self._turn(TICK)
        self._streams.close()
        wasyncore.dispatcher.close(self._server)  # only the listening socket
        last = time.monotonic() + GRACE
        while time.monotonic() < last and any(channel.requests for channel in self._server.active_channels.values()):
            self._turn(TICK / 10)
        self._server.task_dispatcher.shutdown(timeout=1)
        self._server.trigger.close()
        wasyncore.close_all(self._map)

    def stop(self) -> None:
        """Make `run` return; repeated calls do nothing."""
        if not self._stopping:
            self._stopping = True
            self._server.pull_trigger()

    def _turn(self, timeout: float) -> None:
        wasyncore.loop(timeout, use_poll=True, map=self._map, count=1)
