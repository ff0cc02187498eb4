"""Reading the bodies and targets of requests."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable
from email.message import Message

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate_probes.stub_model import server
from turngate_probes.stub_model.server import BadRequest, RequestTarget, read_body, read_target

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def _headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


def _bare_deflate(data: bytes) -> bytes:
    squeezer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return squeezer.compress(data) + squeezer.flush()


_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": _bare_deflate,
    "zstd": zstd.compress,
}


def test_plain() -> None:
    """A body has the length in its header; bytes after it are not read."""
    stream = io.BytesIO(b"hello, next")
    assert read_body(_headers(content_length="5"), stream) == b"hello"
    assert stream.read() == b", next"


def test_none() -> None:
    """A request without a length has no body."""
    assert read_body(_headers(), io.BytesIO(b"next")) == b""


@given(chunks=st.lists(st.binary(min_size=1, max_size=300)))
def test_chunked(chunks: list[bytes]) -> None:
    """Chunks are joined; extensions and trailers are ignored."""
    sent = b"".join(b"%X;a=b\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    stream = io.BytesIO(sent + b"0\r\nTrailer: x\r\n\r\nnext")
    assert read_body(_headers(transfer_encoding="chunked"), stream) == b"".join(chunks)
    assert stream.read() == b"next"


@pytest.mark.parametrize("encoding", _ENCODERS)
@given(data=st.binary())
def test_encoded(encoding: str, data: bytes) -> None:
    """A content encoding is decoded."""
    raw = _ENCODERS[encoding](data)
    headers = _headers(content_length=str(len(raw)), content_encoding=encoding)
    assert read_body(headers, io.BytesIO(raw)) == data


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_encoded_in_parts(encoding: str) -> None:
    """A body that was encoded in parts is decoded to its end."""
    raw = _ENCODERS[encoding](b"hello, ") + _ENCODERS[encoding](b"world")
    headers = _headers(content_length=str(len(raw)), content_encoding=encoding)
    assert read_body(headers, io.BytesIO(raw)) == b"hello, world"


def test_encoded_twice() -> None:
    """Several encodings are decoded from the last to the first."""
    raw = zstd.compress(gzip.compress(b"hello"))
    headers = _headers(content_length=str(len(raw)), content_encoding="gzip, zstd")
    assert read_body(headers, io.BytesIO(raw)) == b"hello"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_limit_when_decoded(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """A small body that would decompress to a huge one is rejected."""
    monkeypatch.setattr(server, "MAX_BODY", 1000)
    for size, refused in ((1000, False), (1001, True)):
        raw = _ENCODERS[encoding](b"x" * size)
        headers = _headers(content_length=str(len(raw)), content_encoding=encoding)
        if not refused:
            assert len(read_body(headers, io.BytesIO(raw))) == size
            continue
        with pytest.raises(BadRequest) as raised:
            read_body(headers, io.BytesIO(raw))
        assert raised.value.status == 413


def test_limit_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that are too long in total are rejected before all of them are read."""
    monkeypatch.setattr(server, "MAX_BODY", 10)
    stream = io.BytesIO(b"8\r\nxxxxxxxx\r\n8\r\nxxxxxxxx\r\n0\r\n\r\n")
    with pytest.raises(BadRequest) as raised:
        read_body(_headers(transfer_encoding="chunked"), stream)
    assert (raised.value.status, stream.tell()) == (413, 16)


@each(
    "status, headers, raw",
    [
        (400, {"content_length": "9"}, b"short"),
        (400, {"content_length": "-1"}, b""),
        (400, {"content_length": "five"}, b"hello"),
        (413, {"content_length": str(32 * 2**20 + 1)}, b""),
        (400, {"transfer_encoding": "chunked"}, b"zz\r\n"),
        (400, {"transfer_encoding": "chunked"}, b"5\r\nhel"),
        (400, {"transfer_encoding": "chunked"}, b"5\r\nhello"),
        (400, {"transfer_encoding": "chunked"}, b""),
        (413, {"transfer_encoding": "chunked"}, b"2000001\r\n"),
        (415, {"content_length": "5", "content_encoding": "br"}, b"hello"),
        (400, {"content_length": "5", "content_encoding": "gzip"}, b"hello"),
        (400, {"content_length": "5", "content_encoding": "zstd"}, b"hello"),
        (400, {"content_length": "5", "content_encoding": "deflate"}, b"\xff\xff\xff\xff\xff"),
    ],
)
def test_bad_bodies(status: int, headers: dict[str, str], raw: bytes) -> None:
    """A body that is damaged, too long or of an unknown encoding is rejected with the matching status."""
    with pytest.raises(BadRequest) as raised:
        read_body(_headers(**headers), io.BytesIO(raw))
    assert raised.value.status == status


@each(
    "method, target, expected",
    [
        ("GET", "/v1/models?a=b", RequestTarget("/v1/models?a=b")),
        ("GET", "/x?to=http://e.com/", RequestTarget("/x?to=http://e.com/")),
        ("OPTIONS", "*", RequestTarget("*")),
        ("CONNECT", "e.com:443", RequestTarget(None, "e.com", 443)),
        ("CONNECT", "e.com", RequestTarget(None, "e.com", 443)),
        ("CONNECT", "[::1]:8080", RequestTarget(None, "::1", 8080)),
        ("GET", "http://E.com/a?b=c", RequestTarget("/a?b=c", "e.com", 80)),
        ("GET", "http://e.com:8080", RequestTarget("/", "e.com", 8080)),
        ("GET", "https://e.com/", RequestTarget("/", "e.com", 443)),
    ],
)
def test_targets(method: str, target: str, expected: RequestTarget) -> None:
    """A target is a path, or host and port with an optional path."""
    assert read_target(method, target) == expected


@each("target", ["e.com:port", "e.com:99999", "", ":443", "[::1:443"])
def test_bad_targets(target: str) -> None:
    """A tunnel without a valid target is rejected."""
    with pytest.raises(BadRequest, match="host") as raised:
        read_target("CONNECT", target)
    assert raised.value.status == 400


@each(
    "host, expected",
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("a.localhost", True),
        ("notlocalhost", False),
        ("127.0.0.1.e.com", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
    ],
)
def test_loopback(host: str, *, expected: bool) -> None:
    """Only the host decides what is loopback."""
    assert RequestTarget(None, host, 80).on_loopback is expected
