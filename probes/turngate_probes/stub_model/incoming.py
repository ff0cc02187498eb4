"""Reads requests: their target, and their body, whatever its transfer and content encoding."""

import gzip
import ipaddress
import re
import zlib
from collections.abc import Iterator
from email.message import Message
from io import BufferedIOBase, BytesIO
from urllib.parse import urlsplit

import zstandard
from msgspec import Struct

MAX_BODY = 32 * 2**20
_MAX_LINE = 4096
_DECIMAL = re.compile(r"[0-9]{1,16}")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{1,16}")


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
                data = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True).read(MAX_BODY + 1)
            case _:
                raise BadRequest(415, f"unknown content-encoding {encoding}")
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as problem:
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
