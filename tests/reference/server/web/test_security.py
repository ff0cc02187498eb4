"""Tests of who may talk to the server, and where it listens."""

import pytest
from flask import Request
from werkzeug.test import EnvironBuilder

from tests.reference.caller import TOKEN
from tests.reference.cli_env import CliEnv
from tests.tables import each
from turngate.errors import UsageError
from turngate_reference.server import cli
from turngate_reference.server.requests import ApiError
from turngate_reference.server.web.security import LOCAL_NAMES, RequestCheck, allowed_hosts


def refusal(guarding: RequestCheck, method: str = "GET", path: str = "/v1/runs", **headers: str | None) -> str | None:
    """Return the error code of a rejected request; None if it passes."""
    sent = {"Host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    environ = EnvironBuilder(method=method, path=path).get_environ()
    environ.pop("HTTP_HOST", None)
    environ |= {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in sent.items() if value is not None}
    try:
        guarding.check(Request(environ))
    except ApiError as refused:
        return refused.code
    return None


@each("host", ["localhost", "LOCALHOST:8321", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8321"])
def test_local_names_pass(host: str) -> None:
    """Every local name of this machine passes, with any port."""
    assert refusal(RequestCheck(), Host=host) is None


@each(
    "host",
    [
        None,
        "",
        "rebound.example",
        "localhost.rebound.example",
        "127.0.0.1.rebound.example:8321",
        "localhost:80:80",
        "localhost:",
        "user@localhost",
        "localhost/",
        "localhost,rebound.example",
        "[::1",
        "::1",
        "[::1].rebound.example",
        "127.0.0.2",
        "0.0.0.0",
        "localhost:80\u00e9",
    ],
)
def test_other_names_are_refused(host: str | None) -> None:
    """A web page whose own domain resolves to this machine can't talk to the server, with or without its token."""
    for guarding in (RequestCheck(), RequestCheck(TOKEN)):
        assert refusal(guarding, Host=host, Authorization=f"Bearer {TOKEN}") == "HOST_REFUSED"


@each(
    "header, code",
    [
        (f"Bearer {TOKEN}", None),
        (f"bearer  {TOKEN}", None),
        (None, "UNAUTHORIZED"),
        ("", "UNAUTHORIZED"),
        ("Bearer", "UNAUTHORIZED"),
        (f"Bearer {TOKEN[:-1]}", "UNAUTHORIZED"),
        (f"Bearer {TOKEN}x", "UNAUTHORIZED"),
        (f"Basic {TOKEN}", "UNAUTHORIZED"),
        (TOKEN, "UNAUTHORIZED"),
        ("Bearer \u00ff\u00fe", "UNAUTHORIZED"),
    ],
)
def test_a_token_is_demanded(header: str | None, code: str | None) -> None:
    """Every request except /healthz needs the token, whatever host name it is sent to."""
    guarding = RequestCheck(TOKEN, hosts=None)
    assert refusal(guarding, Host="turngate.example", Authorization=header) == code
    assert refusal(guarding, path="/healthz", Host="turngate.example", Authorization=header) is None
    assert refusal(guarding, path="/healthz/", Authorization=None) == "UNAUTHORIZED"


@each(
    "origin, code",
    [
        (None, None),
        ("http://localhost:8321", None),
        ("https://localhost:8321", None),
        ("http://localhost", "ORIGIN_REFUSED"),
        ("http://localhost:9999", "ORIGIN_REFUSED"),
        ("http://page.example", "ORIGIN_REFUSED"),
        ("null", "ORIGIN_REFUSED"),
        ("", "ORIGIN_REFUSED"),
    ],
)
def test_pages_of_other_origins_change_nothing(origin: str | None, code: str | None) -> None:
    """A POST from another origin is rejected; reading is left to the browser's own rules."""
    for guarding in (RequestCheck(), RequestCheck(TOKEN)):
        for method, expected in (("POST", code), ("GET", None)):
            sent = refusal(guarding, method, Host="localhost:8321", Origin=origin, Authorization=f"Bearer {TOKEN}")
            assert sent == expected


@each("address", ["0.0.0.0", "192.0.2.1", "::", "2001:db8::1", "fe80::1%eth0"])
def test_an_open_address_needs_a_token(address: str) -> None:
    """A server that others can reach must have a token that the operator chose, and then has any name."""
    with pytest.raises(UsageError, match="needs a token of yours") as refused:
        allowed_hosts(address, address, any_name=False)
    assert "--token-file" in refused.value.hint
    assert allowed_hosts(address, address, any_name=True) is None


def test_a_loopback_address_has_local_names() -> None:
    """The address and the host name by which it was requested both pass as Host."""
    for address, asked, host in (
        ("127.0.0.1", "localhost", "127.0.0.1:80"),
        ("127.0.0.2", "box", "box:80"),
        ("::1", "::1", "[::1]"),
    ):
        assert refusal(RequestCheck(None, allowed_hosts(address, asked, any_name=False)), Host=host) is None
    assert allowed_hosts("127.0.0.1", "localhost", any_name=False) == LOCAL_NAMES


def test_serve_refuses_what_is_unsafe_or_impossible(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """It exits with 2 and says what to do, before anything is created."""
    monkeypatch.delattr(cli, "Server")  # the command stops before this
    short = cli_env.root / "token"
    short.write_text("short")
    for words, said in (
        (("--host", "0.0.0.0"), "--token-file"),
        (("--host", "0.0.0.0", "--no-token"), "--token-file"),
        (("--no-token", "--token-file", str(short)), "not both"),
        (("--host", "::"), "--token-file"),
        (("--host", "0.0.0.0", "--token-file", str(short)), "16 or more"),
        (("--host", "no such host"), "not an address of this machine"),
        (("--host", "192.0.2.1", "--token-file", str(short)), "16 or more"),
    ):
        refused = cli_env.type("serve", "--port", "0", *words)
        assert refused.code == 2
        assert said in refused.err
    assert not cli_env.data.exists()
