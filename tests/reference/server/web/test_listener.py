import pytest

from tests.reference.caller import Caller
from tests.reference.wire import exchange, served
from turngate.errors import MachineError, UsageError
from turngate_reference.server.web.listener import address_of, bound, url
from turngate_reference.server.web.openapi import MAX_BODY


def test_a_body_is_bounded(caller: Caller) -> None:
    """At most 4 MiB are read, whether the length is declared or not."""
    answer = caller.call("POST", "/v1/runs", data=b"x" * (MAX_BODY + 1), content_type="application/json")
    assert answer.json["code"] == "BODY_TOO_LARGE"
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    with served(caller) as port:
        chunked = exchange(port, head + chunk * 5 + b"0\r\n\r\n")
        assert chunked.json["code"] == "BODY_TOO_LARGE"
        assert exchange(port, head + b"2\r\n{}\r\n0\r\n\r\n").json["code"] == "INVALID_REQUEST"
        assert exchange(port, head + chunk * 9 + b"0\r\n\r\n").status == 413
        assert exchange(port, head + b"zz\r\n").status == 400
        assert exchange(port, head.replace(b"chunked", b"gzip")).status == 501


@pytest.mark.parametrize("path", ["/v1/runs/x/cancel", "/v1/runs/x/interaction/reply"])
def test_a_body_that_nobody_reads_is_bounded_too(caller: Caller, path: str) -> None:
    """A body that is too large is rejected even if the request needs no body."""
    assert caller.call("POST", path, data=b"x" * (MAX_BODY + 1)).json["code"] == "BODY_TOO_LARGE"
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with served(caller) as port:
        assert exchange(port, head + chunk * 5 + b"0\r\n\r\n").json["code"] == "BODY_TOO_LARGE"


def test_a_host_that_is_none_is_refused() -> None:
    """The address is looked up before anything is bound, and the error suggests what to try."""
    with pytest.raises(UsageError, match="is not an address of this machine"):
        address_of("x" * 300, 0)


def test_a_bound_socket_has_a_url_and_its_port_alone() -> None:
    """The URL holds the chosen port, and nobody else can bind it."""
    family, address = address_of("127.0.0.1", 0)
    with bound(family, address) as listening:
        port = listening.getsockname()[1]
        assert url(listening) == f"http://127.0.0.1:{port}"
        with pytest.raises(MachineError, match=f"can't listen on 127.0.0.1 port {port}"):
            bound(family, ("127.0.0.1", port))
