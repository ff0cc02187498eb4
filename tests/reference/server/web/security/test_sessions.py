"""Tests of the session cookies of browsers that have sent the token."""

import time

import pytest
from flask import Request, Response
from werkzeug.test import EnvironBuilder

from tests.reference.caller import TOKEN
from turngate_reference.server.web.security import LIFETIME, BrowserSessions


def request(cookie: str = "", origin: str = "http://localhost") -> Request:
    """Return a request with a cookie."""
    return Request(EnvironBuilder(headers=[("Cookie", cookie), ("Origin", origin)]).get_environ())


def begun(of: BrowserSessions, origin: str = "http://localhost") -> str:
    """Begin a session; return the Set-Cookie header."""
    response = Response()
    of.begin(response, request(origin=origin))
    return response.headers["Set-Cookie"]


def test_a_session_ends_with_its_time_and_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature is invalid for any other token or expiry time."""
    ours = BrowserSessions(TOKEN)
    cookie = begun(ours).partition(";")[0]
    assert ours.is_open(request(cookie))
    assert not BrowserSessions(f"{TOKEN}x").is_open(request(cookie))
    name, _, value = cookie.partition("=")
    expires, _, signature = value.partition(".")
    for forged in (
        "",
        "x",
        f"{int(expires) + 1}.{signature}",
        f"{expires}.{signature[:-1]}",
        f"{expires}.\u00e9",
        f".{signature}",
    ):
        assert not ours.is_open(request(f"{name}={forged}"))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME + 1)
    assert not ours.is_open(request(cookie))


def test_cookies_of_two_servers_on_one_host_don_t_meet() -> None:
    """Browsers send cookies to all ports of a host, so each server uses its own cookie name."""
    assert begun(BrowserSessions(TOKEN)).partition("=")[0] != begun(BrowserSessions(f"{TOKEN}x")).partition("=")[0]


def test_over_https_the_cookie_stays_there() -> None:
    """The cookie is Secure if the origin is HTTPS, as behind a proxy."""
    assert "Secure" in begun(BrowserSessions(TOKEN), "https://localhost")
    assert "Secure" not in begun(BrowserSessions(TOKEN))


def test_a_session_can_be_ended() -> None:
    """Ending a session deletes the cookie by its name, and makes it void; a request without one ends nothing."""
    ours, response = BrowserSessions(TOKEN), Response()
    cookie, other = (begun(ours).partition(";")[0] for _ in range(2))
    ours.end(Response(), request())
    assert ours.is_open(request(cookie))
    ours.end(response, request(cookie))
    assert response.headers["Set-Cookie"].startswith(cookie.partition("=")[0] + "=;")
    assert (ours.is_open(request(cookie)), ours.is_open(request(other))) == (False, True)


def test_only_the_token_is_the_token() -> None:
    """Any other text is rejected, whatever characters it contains."""
    assert BrowserSessions(TOKEN).is_token(TOKEN)
    assert not any(BrowserSessions(TOKEN).is_token(text) for text in ("", TOKEN[:-1], "\u00e9", "\ud800"))
