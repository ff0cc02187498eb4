"""Who may talk to the server: by address, Host, Origin and token."""

import hmac
import ipaddress
import re
from pathlib import Path

from flask import Request
from msgspec import Struct

from turngate import EnvironmentFailed
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.web.sessions import BrowserSessions

MIN_TOKEN = 16
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:/@\s]{1,255})(?::[0-9]{1,5})?")
PAGE = "page"  # the blueprint of what a browser shows
_WITHOUT_TOKEN = frozenset({"/healthz", "/login"})
_OWN_PAGE = frozenset({"same-origin", "none"})


class Guard(Struct, frozen=True):
    """Lets requests pass that carry `token` or, if there is no token, that are sent to a name in `hosts`.

    Without a token a web page could point its own name at this machine and read the server's answers, but can't make
    the browser send another Host. With a token it lacks the token.
    """

    token: str | None = None
    hosts: frozenset[str] = LOCAL_NAMES

    def check(self, request: Request) -> None:
        """Let the request pass, or raise ApiError."""
        host = request.headers.get("Host", "")
        if self.token is None:
            parts = _HOST.fullmatch(host)
            if parts is None or parts["name"].lower() not in self.hosts:
                hint = f"use {', '.join(sorted(self.hosts))}, or start the server with --token-file"
                raise ApiError("HOST_REFUSED", f"{host[:100]!r} is not a name of this server", hint)
        origin = request.headers.get("Origin")
        if origin is not None and request.method == "POST" and origin.partition("://")[2].lower() != host.lower():
            raise ApiError(
                "ORIGIN_REFUSED",
                f"requests from web pages of {origin[:100]!r} are not allowed",
                "send it from a program, not from a web page",
            )
        if request.blueprint == PAGE:
            _check_sender(request)
        if self.token is not None and request.path not in _WITHOUT_TOKEN and not self._may_pass(request):
            raise ApiError("UNAUTHORIZED", "the token is missing or wrong", "send Authorization: Bearer TOKEN")

    @property
    def sessions(self) -> BrowserSessions | None:
        """The sessions of browsers that have sent the token; None if the server has no token."""
        return None if self.token is None else BrowserSessions(self.token)

    def _may_pass(self, request: Request) -> bool:
        """Whether a request carries the token or, for a page, the session of a browser."""
        if request.blueprint == PAGE and self.sessions:
            return request.endpoint == f"{PAGE}.static" or self.sessions.is_open(request)
        return self._carried(request)

    def _carried(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        wanted = (self.token or "").encode()
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8", "replace"), wanted)


def _check_sender(request: Request) -> None:
    """Raise ApiError for requests that another site makes a browser send. Following a link to a page is allowed.

    Browsers state where a request comes from; a request that doesn't comes from an API client.
    """
    site, is_form = request.headers.get("Sec-Fetch-Site"), request.method == "POST"
    is_link = not is_form and request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
    is_unknown = is_form and site is None and "Origin" not in request.headers
    if is_unknown or not (site is None or site in _OWN_PAGE or is_link):
        detail = "the request did not come from a page of this server"
        raise ApiError("ORIGIN_REFUSED", detail, "open this server's own page and try again")


def read_token(file: Path) -> tuple[str, str | None]:
    """Read the token, and warn if others can read it too; EnvironmentFailed if it is invalid."""
    try:
        token = file.read_text("ascii").strip()
        mode = file.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFailed(f"the token file {file} can't be read: {error}", "give another") from error
    if not re.fullmatch(rf"[!-~]{{{MIN_TOKEN},4096}}", token):
        hint = "python -c 'import secrets; print(secrets.token_urlsafe(32))' generates one"
        raise EnvironmentFailed(f"{file} must contain {MIN_TOKEN} or more visible characters on one line", hint)
    others = f"{file} can be read by others: chmod 600 it" if mode & 0o077 else None
    return token, others


def guard(address: str, asked: str, token: str | None) -> Guard:
    """Make the guard of a server at `address`, requested as `asked`; EnvironmentFailed if that is unsafe."""
    if token is not None:
        return Guard(token)
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        hint = "add --token-file FILE, or remove --host"
        raise EnvironmentFailed(f"{address} is reachable from other machines, but no token is set", hint)
    own = f"[{address}]" if ":" in address else address
    return Guard(None, LOCAL_NAMES | {own.lower(), asked.lower()})
