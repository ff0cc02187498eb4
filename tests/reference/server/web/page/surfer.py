"""A browser without a screen: follows links, sends forms, and keeps cookies."""

import re
from html import unescape

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.reference.caller import Caller

ORIGIN = "http://localhost"


class Surfer:
    """Opens the pages of a caller's server, and sends their forms as a browser does."""

    def __init__(self, caller: Caller) -> None:
        self.client: FlaskClient = caller.app.test_client()

    def open(self, path: str, **headers: str) -> TestResponse:
        """Open a page."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.client.get(path, headers=sent, buffered=True)

    def text(self, path: str) -> str:
        """Open an existing page; return its text without markup."""
        answer = self.open(path)
        assert answer.status_code == 200, answer.text
        return words(answer.text)

    def send(
        self, path: str, headers: dict[str, str] | None = None, form: dict[str, str] | None = None, **more: str
    ) -> TestResponse:
        """Send a form as if from a page of the server."""
        return self.client.post(
            path, data=(form or {}) | more, headers={"Origin": ORIGIN} if headers is None else headers
        )

    def hidden(self, path: str) -> dict[str, str]:
        """Return the hidden fields of a page's first form that has any."""
        answer = self.open(path)
        (form, *_) = (part for part in answer.text.split("<form")[1:] if "interaction_id" in part or "form_id" in part)
        return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form.partition("</form>")[0]))


def words(page: str) -> str:
    """Return the text of a page without markup."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())
