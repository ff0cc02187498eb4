"""The socket and the WSGI server: client connections under waitress, limited in number, memory and time.

How it works: the thread that runs the listener's loop accepts, reads, writes and closes; it looks at every connection
once a second (`Connections.check`), and never waits for a client. A request whose headers and body have arrived goes to
a thread of the pool, which runs the app (`_Channel.service`). So only a request in work holds a thread, and a slow
client holds one descriptor until its time is up. A connection has one request in work and one behind it. What both
threads touch, `requests`, `since` and the wish to close, is guarded by `requests_lock`; waitress guards the buffers of
the answer, and all else belongs to the loop.

Why it exists: waitress 3.0.2 alone answers what it can't parse as plain text, has one limit for all waits, and at its
limit of connections accepts nobody. Other servers were measured with 516 threads, and 2,000 clients that send half a
request. Here, `/healthz` takes 30 to 70 ms then (median, on a busy machine), of the 100 ms allowed.

- cheroot 11.1.2 and gunicorn 27.0.1 (gthread) read requests on the threads of the pool: `/healthz` had no answer after
  20 s. Headers that arrive byte by byte held their thread longer than 80 s. gunicorn never gives up half a request.
- granian 2.8.7 answers `/healthz` in 4 ms, and gives up late headers. But half a body, a client that says nothing, and
  one that does not read its events were still connected after 80 s. It runs the app in a process of its own, away from
  the one that owns the engines.

None of them answers errors of its own as a problem document.
"""

import heapq
import json
import math
import resource
import socket
import time
from contextlib import suppress
from typing import Any

import psutil
from flask import Flask
from msgspec import Struct
from waitress import wasyncore  # type: ignore[import-untyped]
from waitress.channel import HTTPChannel  # type: ignore[import-untyped]
from waitress.parser import HTTPRequestParser  # type: ignore[import-untyped]
from waitress.server import TcpWSGIServer  # type: ignore[import-untyped]
from waitress.task import ErrorTask  # type: ignore[import-untyped]
from waitress.utilities import Error  # type: ignore[import-untyped]

from turngate import MachineError, UsageError
from turngate_reference.server.web.problems import MEDIA_TYPE, RETRY_SECONDS, document
from turngate_reference.server.web.streams import EventStreams

MAX_TAKEN = 16 * 2**20  # larger bodies are cut off; up to here a client can finish, and read that it sent too much
BATCH = 32
AHEAD = 1  # requests that wait behind the one in work
_CODES = {408: "REQUEST_TIMEOUT", 413: "BODY_TOO_LARGE", 431: "HEADERS_TOO_LARGE", 500: "INTERNAL_ERROR"}
_FULL = "all connections are busy"
CEILING = 65_536  # engines inherit the limit, and some programs close every descriptor up to it, one by one
RESERVED = 128  # for the database, requests in work, and connections between their arrival and their refusal
RESERVED_PER_SLOT = 16  # for the pipes and files of a turn
MOST, LEAST = 4000, 32  # connections
MAX_HEADERS = 64 * 2**10
SPARE_THREADS = 16
TICK = 1.0
GRACE = 5.0


class Limits(Struct, frozen=True):
    """What clients may take: connections, seconds, and bytes.

    `headers` and `body` bound their arrival, `idle` the time between requests. A client that in `stalled` seconds takes
    neither `pace` bytes of its answer nor the rest has gone. `unfinished` bounds the bodies that are still arriving.
    """

    connections: int = 4000
    headers: float = 10.0
    body: float = 60.0
    idle: float = 60.0
    stalled: float = 30.0
    pace: int = 64 * 2**10
    unfinished: int = 256 * 2**20


class _TimeoutError(Error):  # type: ignore[misc]
    code = 408


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


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """A request; waitress logs its path, but sets it only after headers that are right."""

    path = ""


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection; `since` is when its request, the body of it, or the wait for one began."""

    error_task_class = _ProblemTask
    parser_class = _Parser
    request: Any = None

    def __init__(self, *args: Any, **more: Any) -> None:
        self.since = self._moved = time.monotonic()
        self._sent = self._seen = self.held = 0
        self._surplus = self._said_all = False
        super().__init__(*args, **more)

    def readable(self) -> bool:
        """Return whether to read more."""
        return not self._said_all and bool(super().readable())

    def handle_read(self) -> None:
        """Read what came; a client that sends no more is answered before its connection ends."""
        try:
            data = self.socket.recv(self.adj.recv_bytes)
        except BlockingIOError:
            return
        except OSError:
            self.handle_close()
            return
        if data:
            self.last_activity = time.time()
            self.received(data)
            return
        with self.requests_lock:
            self._said_all = True
            answering = bool(self.requests)
        if self.total_outbufs_len:
            self.close_when_flushed = not answering
        elif not answering:
            self.handle_close()

    def check_client_disconnected(self) -> bool:
        """Return whether an endless answer has no reader: a client that sends no more has usually left."""
        return self._said_all or bool(super().check_client_disconnected())

    def received(self, data: bytes) -> bool:
        """Take what came, one request ahead; drop what comes beyond that, and end the connection after the answers.

        One ahead, since a client may have read its whole answer before the thread that wrote it is done here.
        """
        with self.requests_lock:
            if self._surplus or self.requests[AHEAD:]:
                self._surplus = True
                return False
        before = self._phase
        taken: bool = super().received(data)
        with self.requests_lock:
            if self.requests[AHEAD + 1 :]:
                del self.requests[AHEAD + 1 :]
                self._surplus = True
        if self._phase != before:
            self.since = time.monotonic()
        self._count(self.request.body_bytes_received if self.request else 0)
        return taken

    @property
    def _phase(self) -> tuple[bool, bool]:
        return self.request is None, self.request is not None and self.request.headers_finished

    def service(self) -> None:
        """Answer the request."""
        super().service()
        with self.requests_lock:
            self.since = time.monotonic()
            if (self._surplus or self._said_all) and not self.requests:
                self.close_when_flushed = True
        if self.connected:
            self.server.pull_trigger()

    def send(self, data: bytes, do_close: bool = True) -> int:  # noqa: FBT001, FBT002 - waitress' own
        """Send some of the data, and count it."""
        sent: int = super().send(data, do_close)
        self._sent += sent
        return sent

    def del_channel(self, map: Any = None) -> None:  # noqa: A002 - waitress' own
        """Remove the connection from the server."""
        self._count(0)
        super().del_channel(map)

    def check(self, now: float) -> None:
        """Enforce the time limits: refuse a late request, close an idle connection, drop a client that doesn't read."""
        limits = self.server.limits
        if not self.total_outbufs_len or self._sent - self._seen >= limits.pace:
            self._moved, self._seen = now, self._sent
        waited = now - self.since
        if now - self._moved > limits.stalled:
            self.handle_close()
        elif self.requests or self.total_outbufs_len:
            return
        elif self.request is None or not (self.request.headers_finished or self.request.header_plus.strip()):
            if waited > limits.idle:
                self.handle_close()
        elif waited > (limits.body if self.request.headers_finished else limits.headers):
            self.refuse()

    def refuse(self) -> None:
        """Answer a request that is still arriving, and close the connection."""
        with self.requests_lock:
            if self.request is not None and not self.requests:
                self.request.error = _TimeoutError("the rest of the request did not arrive in time")
                self.requests.append(self.request)
                self.request = None
                self.server.add_task(self)
        self._count(0)

    def _count(self, held: int) -> None:
        self.server.held += held - self.held
        self.held = held


class Connections(TcpWSGIServer):  # type: ignore[misc]
    """Waitress' server on a bound socket, within limits; `check` must be called about once a second."""

    channel_class = _Channel
    next_channel_cleanup = math.inf  # waitress' own closes no connection that can't be written to

    def __init__(self, app: Flask, listening: socket.socket, limits: Limits, **settings: Any) -> None:
        self.limits, self.held = limits, 0
        super().__init__(
            app,
            _sock=listening,
            bind_socket=False,
            sockinfo=(listening.family, listening.type, listening.proto, listening.getsockname()),
            connection_limit=2**31,  # waitress would accept nobody any more
            max_request_body_size=MAX_TAKEN,
            inbuf_overflow=2**31,
            outbuf_overflow=2**31,  # no temporary files
            outbuf_high_watermark=limits.pace,
            channel_request_lookahead=AHEAD,  # also lets a stream notice when its client has left
            clear_untrusted_proxy_headers=True,
            **settings,
        )

    def check(self) -> None:
        """Apply the limits of time and memory to every connection."""
        now = time.monotonic()
        for channel in list(self.active_channels.values()):
            channel.check(now)
        if self.held > self.limits.unfinished:
            arriving = [channel for channel in self.active_channels.values() if channel.held]
            for channel in sorted(arriving, key=lambda channel: channel.since):
                if self.held > self.limits.unfinished / 2:
                    channel.refuse()

    def handle_accept(self) -> None:
        """Accept waiting clients; close the longest idle connections to make room, and answer 503 if none is idle."""
        before = len(self.active_channels)
        waiting: list[tuple[socket.socket, Any]] = []
        while len(waiting) < BATCH:
            try:
                arrived = self.accept()
            except OSError:
                break
            if arrived is None:
                break
            waiting.append(arrived)
        # closed after all were accepted: a descriptor must not be used anew while its old events are handled
        excess = before + len(waiting) - self.limits.connections
        if excess > 0:
            idle = (channel for channel in self.active_channels.values() if not channel.requests)
            for channel in heapq.nsmallest(excess, idle, key=lambda channel: channel.last_activity):
                channel.handle_close()
        for connection, address in waiting:
            if len(self.active_channels) < self.limits.connections:
                with suppress(OSError):
                    self.set_socket_options(connection)
                self.channel_class(self, connection, address, self.adj, map=self._map)
            else:
                _turn_away(connection)


def _turn_away(connection: socket.socket) -> None:
    """Answer 503 to a client for which there is no room."""
    problem = document("TOO_MANY_CONNECTIONS", _FULL, "retry later")
    body = json.dumps(problem).encode()
    head = f"HTTP/1.1 503 {problem['title']}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
    head += f"Retry-After: {RETRY_SECONDS}\r\nConnection: close\r\n\r\n"
    with connection, suppress(OSError):
        connection.setblocking(False)  # noqa: FBT003 - the standard library's own
        connection.sendall(head.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(2**16)  # what was asked; unread, it would take the answer back


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
    if limit - reserved < LEAST:
        what = f"{slots} slots need {reserved + LEAST} open files, but the limit is {limit}"
        raise MachineError(what, f"raise the limit (ulimit -n {reserved + LEAST}), or lower --slots")
    return min(MOST, limit - reserved)


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
