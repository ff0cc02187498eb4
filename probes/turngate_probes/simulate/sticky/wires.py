"""How the messages of a service travel: over HTTP, or on the standard streams, with a header or a line for each.

Either way the engine reads a line of JSON for each request, and writes a line for each response and each event.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, pairwise
from queue import Empty, SimpleQueue
from threading import Lock, Thread, local
from typing import Any, BinaryIO

from msgspec.structs import replace

from turngate.contract.launch import Stream
from turngate.contract.simulated_protocols import ServiceSimulation
from turngate_probes.simulate.arguments import UsageProblem
from turngate_probes.simulate.backend import EngineContext
from turngate_probes.simulate.printing import fill, fill_all
from turngate_probes.simulate.sticky.message_queue import Message

MOST = 64 * 2**20  # bytes of a request
HEARTBEAT = 10.0  # seconds without an event


class _HeaderLines:
    """Reads messages that a header with their length precedes, as lines."""

    def __init__(self, stdin: BinaryIO) -> None:
        self._stdin = stdin

    def readline(self) -> bytes:
        """Return the next message; empty at the end of the input."""
        length = 0
        for line in iter(self._stdin.readline, b""):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                length = int(value)
            elif not line.strip() and length:
                return self._stdin.read(min(length, MOST)) + b"\n"
        return b""


def _by_message(world: EngineContext, put: Callable[[Message], None]) -> Callable[[Stream, bytes], None]:
    """Return a function that writes to stderr, and passes on each message for stdout when its line is complete.

    Threads may write at once, each its own lines.
    """
    rests = local()

    def write(stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            world.write(stream, data)
            return
        rest = rests.__dict__.setdefault("rest", bytearray())
        rest.extend(data)
        while (end := rest.find(b"\n")) >= 0:
            with suppress(ValueError):  # noise
                put(json.loads(rest[:end]))
            del rest[: end + 1]

    return write


def with_headers(world: EngineContext) -> EngineContext:
    """Return a context whose messages are JSON-RPC, with a header for each."""

    def put(message: Message) -> None:
        body = _rpc(message)
        world.write("stdout", b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return replace(world, stdin=_HeaderLines(world.stdin), write=_by_message(world, put))


def with_lines(world: EngineContext) -> EngineContext:
    """Return a context whose messages are JSON-RPC, with a line for each."""
    return replace(world, write=_by_message(world, lambda message: world.write("stdout", _rpc(message) + b"\n")))


def _rpc(message: Message) -> bytes:
    members = {key: message[key] for key in ("id", "result", "error") if key in message}
    return json.dumps({"jsonrpc": "2.0", **members, **message.get("event", {})}, ensure_ascii=False).encode()


def over_http(world: EngineContext, service: ServiceSimulation, options: Sequence[str]) -> EngineContext:
    """Return a context whose messages travel over HTTP, and announce the address; UsageProblem if it can't be used."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # noqa: PLC0415 - slow to import
    from urllib.parse import parse_qs, unquote  # noqa: PLC0415 - slow to import

    exchange = _Exchange(world.note)
    given = dict(pairwise(options))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            with suppress(ConnectionError, TimeoutError):
                super().handle_one_request()

        def log_message(self, *_: object) -> None:
            """Log nothing, as the engine does."""

        def respond(self) -> None:
            path, _, query = self.path.partition("?")
            length = min(int(self.headers.get("Content-Length") or 0), MOST)
            body = self.rfile.read(length)
            if service.events and (self.command, path) == ("GET", service.events):
                self.stream()
                return
            params = {name: values[-1] for name, values in parse_qs(query).items()}
            if where := params.get("directory") or self.headers.get(service.directory):
                params["directory"] = unquote(where)
            status, answer = exchange.ask(f"{self.command} {path}", body, params)
            data = b"" if answer is None else json.dumps(answer, ensure_ascii=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Cache-Control", "no-cache, no-transform")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            with exchange.subscribed() as events:
                for first in service.connected:
                    events.put(json.dumps(fill_all(first, {})).encode())
                while True:
                    # an empty line now and then shows whether the client is still there
                    with suppress(Empty):
                        self.wfile.write(b"data: " + events.get(timeout=HEARTBEAT))
                    self.wfile.write(b"\n\n")
                    self.wfile.flush()

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = respond  # noqa: N815 - the names that the base class calls

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    host = given.get(service.host or "") or "127.0.0.1"
    port = given.get(service.port or "") or "0"
    try:
        server = Server((host, int(port)), Handler)
    except (OSError, OverflowError, ValueError) as wrong:
        raise UsageProblem("malformed", f"can't listen on {host}:{port}: {wrong}", value=port) from wrong
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://{host}:{server.server_port}"
    world.write("stdout", str(fill(service.listening, {"url": url})).encode())

    return replace(world, stdin=exchange, write=_by_message(world, exchange.told))


class _Exchange:
    """Requests of all connections, which the engine reads as lines, and what it says to each."""

    def __init__(self, note: Callable[[bytes], None]) -> None:
        self._note, self._requests = note, SimpleQueue[bytes]()
        self._waiting: dict[int, SimpleQueue[tuple[int, Any]]] = {}
        self._subscribers: list[SimpleQueue[bytes]] = []
        self._numbers, self._lock = count(1), Lock()

    def readline(self) -> bytes:
        """Return the next request."""
        return self._requests.get()

    def ask(self, method: str, body: bytes, params: Mapping[str, str]) -> tuple[int, Any]:
        """Pass a request on, and return the status and the body of its response."""
        try:
            given = json.loads(body) if body.strip() else {}
        except ValueError:
            return 400, {"error": "the body is not JSON"}
        with self._lock:
            number = next(self._numbers)
            answer = self._waiting[number] = SimpleQueue()
        given = given if isinstance(given, dict) else {}
        line = json.dumps({"id": number, "method": method, "params": {**params, **given}}).encode() + b"\n"
        if body:
            self._note(line)
        self._requests.put(line)
        try:
            return answer.get()
        finally:
            del self._waiting[number]

    @contextmanager
    def subscribed(self) -> Iterator[SimpleQueue[bytes]]:
        """Yield the events from now on, for one client, until the block ends."""
        events = SimpleQueue[bytes]()
        with self._lock:
            self._subscribers.append(events)
        try:
            yield events
        finally:
            with self._lock:
                self._subscribers.remove(events)

    def told(self, message: Message) -> None:
        """Pass on a response or an event."""
        if "event" in message:
            event = json.dumps(message["event"], ensure_ascii=False).encode()
            with self._lock:
                for queue in self._subscribers:
                    queue.put(event)
        elif waiting := self._waiting.get(message.get("id", 0)):
            error = message.get("error")
            waiting.put((error["code"], error["message"]) if error else (message["status"], message["result"]))
