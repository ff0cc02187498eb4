"""The socket and the WSGI server: waitress with a thread for each stream."""

import socket
import time
from contextlib import suppress
from typing import Any

from flask import Flask
from waitress import wasyncore  # type: ignore[import-untyped]

from turngate import MachineError, UsageError
from turngate_reference.server.web.connections import Connections, Limits
from turngate_reference.server.web.streams import EventStreams

MAX_HEADERS = 64 * 2**10
SPARE_THREADS = 16
TICK = 1.0
GRACE = 5.0
_LIMITS = Limits()


def address_of(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Return the family and the address of a host to bind; UsageError if it has none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is not an address of this machine: {error}", "try --host 127.0.0.1") from error
    return family, address


def bound(family: socket.AddressFamily, address: Any) -> socket.socket:
    """Bind an address exclusively; MachineError if it is taken."""
    try:
        return socket.create_server(address, family=family)
    except OSError as error:
        hint = "choose another --port (0 takes a free one)"
        raise MachineError(f"can't listen on {address[0]} port {address[1]}: {error}", hint) from error


def url(listening: socket.socket) -> str:
    """Return the URL at which this machine reaches a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class WebListener:
    """Serves an app on a bound socket; `run` returns after `stop`, which a signal handler may call."""

    def __init__(self, app: Flask, listening: socket.socket, streams: EventStreams, limits: Limits = _LIMITS) -> None:
        self._streams = streams
        self._stopping = False
        self._map: dict[int, Any] = {}
        self._checked = 0.0
        self._server = Connections(
            app,
            listening,
            limits,
            map=self._map,
            threads=streams.limit + SPARE_THREADS,
            max_request_header_size=MAX_HEADERS,
            ident="turngate",
        )

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
            # woken by something else, `run` may have returned already, and closed the trigger
            with suppress(OSError):
                self._server.pull_trigger()

    def _turn(self, timeout: float) -> None:
        if (now := time.monotonic()) >= self._checked + TICK:
            self._checked = now
            self._server.check()
        wasyncore.loop(timeout, use_poll=True, map=self._map, count=1)
