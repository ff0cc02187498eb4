"""Who may talk to the server: by address, Host, Origin and token, or in a browser by a signed cookie.

The cookie proves that the token was sent once, without containing it.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
import time

from flask import Request
from msgspec import Struct, field
from werkzeug.wrappers import Response

from turngate import UsageError
from turngate_reference.access import Logouts
from turngate_reference.server.requests import ApiError

LIFETIME = 30 * 24 * 3600  # seconds
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[^\[\]:/@\s]{1,255})(?::[0-9]{1,5})?")
PAGE = "page"  # the blueprint of what a browser shows
_WITHOUT_TOKEN = frozenset({"/healthz", "/login"})
_TOKEN_HINT = (
    "send Authorization: Bearer TOKEN; on the server's machine, turngate serve --print-token prints it, "
    "with the server's --data-dir if it has one"
)
_OWN_PAGE = frozenset({"same-origin", "none"})


class BrowserSessions:
    """Issues and checks the cookies of a server with this token; another token or a logout makes them void."""

    def __init__(self, token: str, logouts: Logouts | None = None) -> None:
        self._token, self._logouts = token, logouts or Logouts()
        # cookies are shared by all ports of a host, and so by all servers on it
        self._name = f"turngate-{self._signature('name')[:12]}"

    def is_token(self, given: str) -> bool:
        """Whether a text is the token."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def is_open(self, request: Request) -> bool:
        """Whether a request carries a cookie that this token has signed, that has not expired, and was not ended."""
        return self._session(request) is not None

    def _session(self, request: Request) -> tuple[str, int] | None:
        """Return the session of a request, and when it expires; None if it carries none that is open."""
        signed, _, signature = request.cookies.get(self._name, "").rpartition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(signed).encode()):
            return None
        expires, _, session = signed.partition(".")
        is_open = int(expires) > time.time() and session and session not in self._logouts
        return (session, int(expires)) if is_open else None

    def begin(self, response: Response, request: Request) -> None:
        """Set the cookie; over HTTPS it is kept off plain connections."""
        signed = f"{int(time.time()) + LIFETIME}.{secrets.token_urlsafe(16)}"
        secure = request.headers.get("Origin", "").startswith("https://")
        value = f"{signed}.{self._signature(signed)}"
        response.set_cookie(self._name, value, max_age=LIFETIME, httponly=True, samesite="Strict", secure=secure)

    def end(self, response: Response, request: Request) -> None:
        """Make the cookie void wherever it is, and remove it; OSError if a restart would make it valid again."""
        if session := self._session(request):
            self._logouts.add(*session)
        response.delete_cookie(self._name, httponly=True, samesite="Strict")

    def _signature(self, text: str) -> str:
        key = self._token.encode()
        return hmac.new(key, f"turngate browser session {text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()


class RequestCheck(Struct, frozen=True):
    """Lets requests pass that are sent to a name in `hosts`, or to any name without it, and that carry the `token`.

    `logouts` are the sessions of browsers that were ended.

    A web page can point its own name at this machine, but can't make the browser send another Host. So it reads no
    answers of a server without a token.
    """

    token: str | None = None
    hosts: frozenset[str] | None = LOCAL_NAMES
    logouts: Logouts = field(default_factory=Logouts)

    def check(self, request: Request) -> None:
        """Let the request pass, or raise ApiError."""
        host = request.headers.get("Host", "")
        if self.hosts is not None:
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
            raise ApiError("UNAUTHORIZED", "the token is missing or wrong", _TOKEN_HINT)

    @property
    def sessions(self) -> BrowserSessions | None:
        """The sessions of browsers that have sent the token; None if the server has no token."""
        return None if self.token is None else BrowserSessions(self.token, self.logouts)

    def _may_pass(self, request: Request) -> bool:
        """Whether a request carries the token or, for a page or a path that doesn't exist, the session of a browser."""
        if request.blueprint == PAGE and self.sessions:
            return request.endpoint == f"{PAGE}.static" or self.sessions.is_open(request)
        is_unknown = request.url_rule is None
        return self._carried(request) or bool(is_unknown and self.sessions and self.sessions.is_open(request))

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


def allowed_hosts(address: str, asked: str, *, any_name: bool) -> frozenset[str] | None:
    """Return the names under which a server at `address`, requested as `asked`, may be addressed; None: any.

    `any_name` says that the operator chose the token, and so opened the server to others; UsageError if an
    address that others can reach lacks such a token.
    """
    if any_name:
        return None
    if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        hint = "add --token-file FILE, or remove --host"
        raise UsageError(f"{address} is reachable from other machines, which needs a token of yours", hint)
    own = f"[{address}]" if ":" in address else address
    return LOCAL_NAMES | {own.lower(), asked.lower()}
