"""An HTTP API client that checks every answer against the OpenAPI document and records which answers occurred."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from flask.testing import FlaskClient
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from turngate_reference.server.app import Server
from turngate_reference.server.web import openapi
from turngate_reference.server.web.app import create_app
from turngate_reference.server.web.metrics import Metrics
from turngate_reference.server.web.openapi import Operation
from turngate_reference.server.web.security import RequestCheck
from turngate_reference.server.web.streams import EventStreams

OUTSIDE = {"NOT_FOUND", "METHOD_NOT_ALLOWED", "REQUEST_MALFORMED"}  # belong to no operation
PROBLEM = "application/problem+json"
TOKEN = "a-token-of-26-characters.."


class Occurrence(NamedTuple):
    """An answer of an operation; `code` is set only for a problem."""

    path: str
    method: str
    status: int
    code: str


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)


FEW = 8  # event streams, for each of which a listener starts a thread


@dataclass
class Caller:
    """Sends requests to an app over a server; `seen` may be shared by several callers."""

    core: Server
    guard: RequestCheck = field(default_factory=RequestCheck)
    streams: EventStreams = field(default_factory=partial(EventStreams, FEW))
    metrics: Metrics = field(default_factory=Metrics)
    seen: set[Occurrence] = field(default_factory=set)
    client: FlaskClient = field(init=False)

    def __post_init__(self) -> None:
        self.app = create_app(self.core, self.guard, self.streams, self.metrics)
        self.client = self.app.test_client()

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Answer:
        """Send a request, and check that its answer is documented."""
        response = self.client.open(path, method=method, headers=headers or {}, **more)
        answer = Answer(response.status_code, dict(response.headers), response.data)
        self.hold(method, path, answer)
        return answer

    def hold(self, method: str, path: str, answer: Answer) -> None:
        """Check an answer that was received another way against the document, and record it."""
        self.seen.add(hold_to_document(method, path, answer))

    def get(self, path: str, **headers: str) -> Answer:
        """Send a GET."""
        return self.call("GET", path, _dashed(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a POST, with or without a JSON body."""
        return self.call("POST", path, _dashed(headers), **({} if body is None else {"json": body}))


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def hold_to_document(method: str, path: str, answer: Answer) -> Occurrence:
    """Check an answer against the document; return its operation, status and code."""
    operation = operation_of(method, path)
    code = answer.json["code"] if answer.headers.get("Content-Type") == PROBLEM else ""
    if code:
        assert not problem_flaws(answer), answer
    if code in OUTSIDE:
        return Occurrence("", "", answer.status, code)
    assert operation, f"{method} {path} is not in the document, and got {answer}"
    response = operation.responses.get(str(answer.status))
    assert response, f"{answer.status} of {method} {path} is not in the document: {answer}"
    assert set(response.get("headers", ())) <= set(answer.headers)
    assert code in _codes(response), f"{code} of {method} {path} is not in the document"
    _check_content(response, answer)
    return Occurrence(operation.path, operation.method, answer.status, code)


def _codes(response: dict[str, Any]) -> set[str]:
    """Return the codes of a documented response; an empty one if it need not be a problem document."""
    return {*response.get("x-codes", ()), *([""] if {*response.get("content", ())} != {PROBLEM} else ())}


def problem_flaws(answer: Answer) -> list[str]:
    """Return what is wrong with a problem document."""
    reported = answer.json
    entry = openapi.problems().get(reported["code"])
    if entry is None:
        return [f"{reported['code']} is not in the table"]
    flaws = [error.message for error in schema("Problem").iter_errors(reported)]
    if (reported["status"], reported["title"]) != (answer.status, entry["title"]) or int(
        entry["status"]
    ) != answer.status:
        flaws.append("status and title are not those of the table")
    if reported["status"] == 503 and "Retry-After" not in answer.headers:
        flaws.append("no Retry-After")
    return flaws


def _check_content(response: dict[str, Any], answer: Answer) -> None:
    content = response.get("content")
    if content is None:
        assert not answer.body
        return
    media = answer.headers["Content-Type"].partition(";")[0]
    assert media in content
    if media.endswith("json"):
        errors = validator(json.dumps(content[media]["schema"])).iter_errors(answer.json)
        assert not [f"{error.json_path}: {error.message}" for error in errors], answer.json
    if media == "text/event-stream":
        types = re.findall(rb"^event: (.+)$", answer.body, re.MULTILINE)
        assert {kind.decode() for kind in types} <= set(openapi.document()["x-turngate"]["events"])


def operation_of(method: str, path: str) -> Operation | None:
    """Find the operation that a request addresses."""
    bare = path.partition("?")[0]
    for operation in openapi.operations():
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(operation.path))
        if operation.method == method.lower() and re.fullmatch(pattern, bare):
            return operation
    return None


def schema(name: str) -> Draft202012Validator:
    """Return the validator of a schema of the document."""
    return validator(json.dumps({"$ref": f"#/components/schemas/{name}"}))


@cache
def validator(text: str) -> Draft202012Validator:
    """Return the validator of a schema of the document."""
    registry = Registry().with_resource("urn:document", DRAFT202012.create_resource(openapi.document()))
    absolute = json.loads(text.replace('"#/', '"urn:document#/'))
    return Draft202012Validator(absolute, registry=registry, format_checker=FormatChecker())


def documented() -> set[Occurrence]:
    """List all answers that the document lists."""
    return {
        Occurrence(operation.path, operation.method, int(status), code)
        for operation in openapi.operations()
        for status, response in operation.responses.items()
        for code in _codes(response)
    }


def concrete(operation: Operation, run_id: str = "20261122T014200Z-codex-k3n9x2ab") -> tuple[str, str]:
    """Return the method and the path of a request for an operation."""
    needed = [
        parameter["name"]
        for parameter in operation.parameters
        if parameter["in"] == "query" and parameter.get("required")
    ]
    query = f"?{'&'.join(f'{name}=x' for name in needed)}" if needed else ""
    return operation.method.upper(), operation.path.replace("{run_id}", run_id) + query


def all_but(*left_out: str) -> Iterable[Operation]:
    """Return every operation except those of these paths."""
    return (operation for operation in openapi.operations() if operation.path not in left_out)
