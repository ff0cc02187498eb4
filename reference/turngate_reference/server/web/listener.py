"""The socket and the WSGI server: waitress, and how much of a machine its clients may take.

waitress reads and writes for all clients on the thread of `WebListener.run`, and never waits for one of them. A request
whose headers and body have arrived goes to a thread of the pool, which runs the app. So only a request in work holds a
thread, an event stream among them, and a slow client holds descriptors until it has been silent for too long.
"""

import os
import resource
import socket
import sys
from contextlib import suppress
from typing import Any

import psutil
import waitress  # type: ignore[import-untyped]
from flask import Flask
from waitress import wasyncore

from turngate import MachineError, UsageError
from turngate_reference.server.web.streams import EventStreams

MOST, LEAST = 1000, 32  # connections
IDLE = 60  # seconds in which a client neither sends nor reads, unless its request is in work
STALLED = 30  # seconds in which a client takes nothing of what is waiting for it
MAX_HEADERS = 64 * 2**10
MAX_TAKEN = 8 * 2**20  # larger bodies are cut off; up to here a client can finish, and read that it sent too much
IN_MEMORY = 256 * 2**10  # of a body that is arriving; the rest is in a temporary file
UNSENT = 64 * 2**10  # bytes for a client, beyond which the app waits for it
SPARE_THREADS = 16
CEILING = 65_536  # engines inherit the limit, and some programs close every descriptor up to it, one by one
RESERVED = 128  # for the database, requests in work, and what the app opens
RESERVED_PER_SLOT = 16  # for the pipes and files of a turn
PER_CONNECTION = 2  # its socket, and the file of a body that is arriving
OWN = 2  # what waitress counts as connections beside those of clients: the listening socket, and its trigger
NEVER = 2**31 - 1


def raise_limit() -> int:
    """Raise the limit of open files, up to `CEILING`, as far as the system allows; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CEILING if hard == resource.RLIM_INFINITY else min(hard, CEILING)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def connections(limit: int, slots: int) -> int:
    """Return how many connections leave `slots` turns the descriptors they need; MachineError if too few do."""
    reserved = psutil.Process().num_fds() + RESERVED + RESERVED_PER_SLOT * slots
    least = LEAST * PER_CONNECTION
    if limit - reserved < least:
        what = f"{slots} slots need {reserved + least} open files, but the limit is {limit}"
        raise MachineError(what, f"raise the limit (ulimit -n {reserved + least}), or lower --slots")
    return min(MOST, (limit - reserved) // PER_CONNECTION)


def address_of(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    """Return the family and the address of a host to bind; UsageError if it has none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} is not an address of this machine: {error}", "try --host 127.0.0.1") from error
    return family, address


def bound(family: socket.AddressFamily, address: Any, stalled: float = STALLED) -> socket.socket:
    """Bind an address exclusively; MachineError if it is taken.

    On Linux, a client that for `stalled` seconds takes nothing of what is waiting for it loses its connection.
    """
    try:
        listening = socket.create_server(address, family=family)
    except OSError as error:
        hint = "choose another --port (0 takes a free one)"
        raise MachineError(
            f"can't listen on {address[0]} port {address[1]}: {os.strerror(error.errno or 0)}", hint
        ) from error
    if sys.platform == "linux":  # connections inherit it; waitress itself closes none that can't be written to
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(stalled * 1000))
    return listening


def url(listening: socket.socket) -> str:
    """Return the URL at which this machine reaches a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class WebListener:
    """Serves an app on a bound socket; `run` returns after `stop`, which a signal handler may call.

    At the limit of connections, clients wait until one of them closes.
    """

    def __init__(
        self, app: Flask, listening: socket.socket, streams: EventStreams, most: int = MOST, idle: int = IDLE
    ) -> None:
        self._listening, self._streams = listening, streams
        self._stopping = False
        self._map: dict[int, Any] = {}
        self._server = waitress.create_server(
            app,
            self._map,
            sockets=[listening],
            threads=streams.limit + SPARE_THREADS,
            connection_limit=most + OWN,
            channel_timeout=idle,
            cleanup_interval=min(idle, 5),
            max_request_header_size=MAX_HEADERS,
            max_request_body_size=MAX_TAKEN,
            inbuf_overflow=IN_MEMORY,
            outbuf_overflow=NEVER,
            outbuf_high_watermark=UNSENT,
            channel_request_lookahead=1,  # a stream notices when its client has left
            log_socket_errors=False,
            ident="turngate",
        )

    def run(self) -> None:
        """Serve until `stop`; then end all streams, and finish open requests, for five seconds at most."""
        while not self._stopping:
            wasyncore.loop(1, use_poll=True, map=self._map, count=1)
        self._streams.close()
        self._listening.close()
        self._server.task_dispatcher.shutdown()
        wasyncore.close_all(self._map)

    def stop(self) -> None:
        """Make `run` return; repeated calls do nothing."""
        if not self._stopping:
            self._stopping = True
            # woken by something else, `run` may have returned already, and closed the trigger
            with suppress(OSError):
                self._server.pull_trigger()
