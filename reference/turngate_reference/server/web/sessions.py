"""Browser sessions: a signed cookie proves that the token was sent once, without containing it."""

import hashlib
import hmac
import time

from flask import Request
from werkzeug.wrappers import Response

LIFETIME = 30 * 24 * 3600  # seconds


class BrowserSessions:
    """Issues and checks the cookies of a server with this token; another token makes them void."""

    def __init__(self, token: str) -> None:
        self._token = token
        # cookies are shared by all ports of a host, and so by all servers on it
        self._name = f"turngate-{self._signature('name')[:12]}"

    def is_token(self, given: str) -> bool:
        """Whether a text is the token."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())

    def is_open(self, request: Request) -> bool:
        """Whether a request carries a cookie that this token has signed and that has not expired."""
        expires, _, signature = request.cookies.get(self._name, "").partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(expires).encode()):
            return False
        return int(expires) > time.time()

    def begin(self, response: Response, request: Request) -> None:
        """Set the cookie; over HTTPS it is kept off plain connections."""
        expires = str(int(time.time()) + LIFETIME)
        secure = request.headers.get("Origin", "").startswith("https://")
        value = f"{expires}.{self._signature(expires)}"
        response.set_cookie(
            self._name, value, max_age=LIFETIME, httponly=True, samesite="Strict", secure=secure
        )  # fmt: skip

    def end(self, response: Response) -> None:
        """Remove the cookie."""
        response.delete_cookie(self._name, httponly=True, samesite="Strict")

    def _signature(self, text: str) -> str:
        key = self._token.encode()
        return hmac.new(key, f"turngate browser session {text}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()
