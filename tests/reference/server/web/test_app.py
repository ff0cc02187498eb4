"""Tests of how the app handles any request."""

from tests.reference.caller import Caller
from tests.tables import each


@each("path", ["/v1", "/v1/runs/", "/v1/runs//turns", "/V1/runs", "/v1/runs/x/y", "/%00", "/v1/%ff"])
def test_other_paths_are_none(caller: Caller, path: str) -> None:
    """A path that the document doesn't list gets a problem document, never a redirect."""
    answer = caller.get(path)
    assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")


@each("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST"])
def test_other_methods_are_named(caller: Caller, method: str) -> None:
    """The answer lists the allowed methods."""
    answer = caller.call(method, "/v1/engines")
    assert (answer.status, answer.json["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD"}


def test_no_answer_is_guessed_at_or_kept(caller: Caller) -> None:
    """Answers, problems included, forbid caching and content sniffing."""
    for path in ("/healthz", "/v1/runs/x"):
        headers = caller.get(path).headers
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
