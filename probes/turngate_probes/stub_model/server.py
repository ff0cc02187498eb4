"""The stub model backend: its script and journal, behind a loopback port that speaks every protocol."""

import gzip
import ipaddress
import json
import re
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.message import Message
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from typing import Any, Protocol, Self, cast
from urllib.parse import urlsplit

from msgspec import Struct

from turngate_probes.stub_model.answers import Answer, Egress, Exchange, nonces_in, refuse, respond
from turngate_probes.stub_model.protocol import ReplyRules, StubRule

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BODY = 32 * 2**20
_MAX_LINE = 4096
_DECIMAL = re.compile(r"[0-9]{1,16}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,16}")
_DEADLINE = 2.0  # seconds for the threads to end once their connections are closed


class BadRequest(Exception):  # noqa: N818 - named as HTTP names it
    """A request that cannot be read; answered with `status` and `message`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class RequestTarget(Struct, frozen=True):
    """The target of a request: `path` with its query, None for a tunnel; `host` and `port` if it is for a proxy."""

    path: str | None
    host: str = ""
    port: int = 0

    @property
    def on_loopback(self) -> bool:
        """Whether the host is this machine, without using a resolver."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_target(method: str, target: str) -> RequestTarget:
    """Read the target of a request line. Raises BadRequest."""
    if method != "CONNECT" and "://" not in target.partition("?")[0]:
        return RequestTarget(target)
    try:
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        port = url.port or (443 if url.scheme in ("", "https", "wss") else 80)
    except ValueError as problem:
        raise BadRequest(400, f"not a host and port: {target}") from problem
    if not url.hostname:
        raise BadRequest(400, f"no host: {target}")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return RequestTarget(None if method == "CONNECT" else path, url.hostname, port)


def read_body(headers: Message, stream: BufferedIOBase) -> bytes:
    """Return the decoded body of a request.

    Raises:
        BadRequest: 413 beyond MAX_BODY, encoded or not; 415 for an unknown encoding; 400 if it is damaged.
    """
    if "chunked" in headers.get("transfer-encoding", "").lower():
        raw = b"".join(_chunks(stream))
    else:
        raw = _read(stream, _size(headers.get("content-length", "0"), _DECIMAL, 10))
    named = headers.get("content-encoding", "").lower().split(",")
    for encoding in reversed([coding.strip() for coding in named]):
        raw = _decoded(encoding, raw)
    return raw


def _chunks(stream: BufferedIOBase) -> Iterator[bytes]:
    total = 0
    while size := _size(_line(stream).partition(b";")[0].decode("latin-1"), _HEXADECIMAL, 16):
        total += size
        if total > MAX_BODY:
            raise BadRequest(413, f"more than {MAX_BODY} bytes")
        yield _read(stream, size)
        _line(stream)
    while _line(stream):
        pass


def _line(stream: BufferedIOBase) -> bytes:
    line = stream.readline(_MAX_LINE)
    if not line.endswith(b"\n"):
        raise BadRequest(400, "the chunked body is damaged")
    return line.strip()


def _read(stream: BufferedIOBase, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise BadRequest(400, f"the body ended after {len(data)} of {size} bytes")
    return data


def _size(text: str, digits: re.Pattern[str], base: int) -> int:
    if not digits.fullmatch(text.strip()):
        raise BadRequest(400, f"not a length: {text}")
    size = int(text, base)
    if size > MAX_BODY:
        raise BadRequest(413, f"more than {MAX_BODY} bytes")
    return size


def _decoded(encoding: str, raw: bytes) -> bytes:
    try:
        match encoding:
            case "" | "identity":
                data = raw
            case "gzip" | "x-gzip":
                data = gzip.GzipFile(fileobj=BytesIO(raw)).read(MAX_BODY + 1)
            case "deflate":
                data = _inflate(raw)
            case "zstd":
                data = zstd.ZstdFile(BytesIO(raw)).read(MAX_BODY + 1)
            case _:
                raise BadRequest(415, f"unknown content-encoding {encoding}")
    except (OSError, EOFError, zlib.error, zstd.ZstdError) as problem:
        raise BadRequest(400, f"the body is not {encoding}: {problem}") from problem
    if len(data) > MAX_BODY:
        raise BadRequest(413, f"more than {MAX_BODY} bytes when decoded")
    return data


def _inflate(raw: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(raw, MAX_BODY + 1)
    except zlib.error:
        # some clients send the bare stream, without the zlib header that the standard asks for
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, MAX_BODY + 1)


class Backend(Protocol):
    """What answers requests and journals them; it is used on the thread of each connection."""

    rules: ReplyRules

    def note(self, entry: Exchange | Egress) -> None:
        """Journal a request before it is answered."""


class _Handler(BaseHTTPRequestHandler):
    """Serves the requests of a connection in turn, each journalled before it is answered."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer goes out in as few packets as possible
    raw_requestline: bytes  # the base class keeps it here

    @property
    def _listener(self) -> "Listener":
        return cast("Listener", self.server)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Write no access log, because the journal is complete."""

    def send_error(self, code: int, message: str | None = None, _explain: str | None = None) -> None:
        """Journal and refuse what the base class can't parse as a request, and end the connection."""
        self.close_connection = True
        line = self.raw_requestline.decode("latin-1").strip()
        refusal = message or HTTPStatus(code).phrase
        self._settle(self._exchange(line, reply=f"refuse {code}"), Answer(code, {"error": {"message": refusal}}))

    def _serve(self) -> None:
        try:
            target = read_target(self.command, self.path)
        except BadRequest as problem:
            self.send_error(problem.status, problem.message)
            return
        if target.host and not (target.on_loopback and target.port == self._listener.port):
            self._refuse_passing_on(target)
        elif target.path is not None:
            self._answer(target.path)
        else:
            self._open_tunnel()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_CONNECT = _serve  # noqa: N815

    def _answer(self, path: str) -> None:
        try:
            body = read_body(self.headers, self.rfile)
        except BadRequest as problem:
            self.close_connection = True  # where the next request begins is unknown
            self._settle(*refuse(self._exchange(path), self.headers, problem.status, problem.message))
            return
        self._settle(*respond(self._exchange(path, body), self.headers, self._listener.backend.rules))

    def _open_tunnel(self) -> None:
        """Serve requests to the backend itself through a tunnel on the same connection."""
        self._listener.backend.note(self._exchange(self.path, protocol="proxy", reply="tunnel"))
        self.send_response_only(HTTPStatus.OK, "Connection established")
        self.end_headers()
        self.close_connection = False

    def _refuse_passing_on(self, target: RequestTarget) -> None:
        self.close_connection = True
        entry: Exchange | Egress = Egress(time.time(), target.host, target.port, self.command)
        if target.on_loopback:  # wrong, but it does not leave the machine
            entry = self._exchange(self.path, reply="refuse 403")
        self._settle(
            entry, Answer(403, {"error": {"message": f"requests to {target.host}:{target.port} are not forwarded"}})
        )

    def _exchange(self, path: str, body: bytes = b"", protocol: str | None = None, reply: str = "") -> Exchange:
        return Exchange(
            time.time(),
            self.command or "",
            path,
            protocol,
            nonces=nonces_in(body),
            body=body,
            reply=reply,
            size=len(body),
            peer=self.client_address[1],
            headers={name.lower(): value for name, value in getattr(self, "headers", {}).items()},
        )

    def _settle(self, entry: Exchange | Egress, answer: Answer | None) -> None:
        """Journal a request, then answer it."""
        self._listener.backend.note(entry)
        if answer is None:
            self.close_connection = True
            while self.rfile.read(4096):  # ends with the connection, whichever side closes it
                pass
        else:
            self._send(answer)

    def _send(self, answer: Answer) -> None:
        if isinstance(answer.body, Sequence):
            # chunked, so that a client can tell a stream that was cut from one that ended
            headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
            chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in answer.body]
            body = b"".join(chunks[: len(chunks) // 2] if answer.cut else [*chunks, b"0\r\n\r\n"])
        else:
            whole = json.dumps(answer.body).encode()
            headers = {"content-type": "application/json", "content-length": str(len(whole))}
            body = whole[: len(whole) // 2] if answer.cut else whole
        self.send_response_only(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = self.close_connection or answer.cut


class Listener(ThreadingHTTPServer):
    """A loopback port with a thread for each connection, and the backend that they share."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, backend: Backend, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.backend = backend
        self.port: int = self.server_address[1]
        self._open: set[socket.socket] = set()
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._accept, name=f"stub-model-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End accepting, end every connection, and wait for their threads."""
        with self._changed:
            self._closing = True
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=_DEADLINE):
            pass  # wakes the accepting thread, which waits without a timeout
        self._thread.join(_DEADLINE)
        self.server_close()
        with self._changed:
            for connection in self._open:
                _shut(connection)
            self._changed.wait_for(lambda: not self._open, _DEADLINE)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a separate thread; it ends immediately if the listener is closing."""
        with self._changed:
            self._open.add(request)
            if self._closing:
                _shut(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a finished connection."""
        super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore that a client left; anything else is a bug in turngate and is reported."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def _accept(self) -> None:
        while not self._closing:
            self.handle_request()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


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
        self.counts_egress = True
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

    def script(self, *rules: StubRule) -> None:
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
            self.counts_egress = False

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
                self._egress += [entry] if self.counts_egress else []
                told = [partial(callback, entry) for callback in self._on_egress]
            else:
                self._exchanges.append(entry)
                told = [partial(callback, entry) for callback in self._callbacks]
        for tell in told:
            tell()


@contextmanager
def refused_port() -> Iterator[int]:
    """Hold a loopback port on which nothing listens; it is bound, so that no other process gets it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        yield port
