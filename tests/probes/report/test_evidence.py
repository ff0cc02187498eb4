"""Evidence is rendered as lines of text."""

from typing import Any

import pytest

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.verdict import CallEvidence, Evidence
from turngate_probes.report.evidence import MOST_REQUESTS, evidence_text

REQUESTED = (
    "  request: POST /v1/responses (openai.responses, model stub-1); nonces tgn-0011223344556677; "
    "last user text 'say tgn-0011223344556677'; response: text"
)


def shown_by(**fields: Any) -> tuple[Evidence, ...]:
    """Return the evidence of a clause that failed because of this turn."""
    events = [j.planned(), j.turn(**fields), j.clause("handle.present", "fail")]
    return next(c for c in samples.of(events).releases[0].clauses if c.id == "handle.present").evidence


def test_a_turn_shows_its_command_its_output_and_its_requests() -> None:
    """Command, output and requests each have a line below the turn's name."""
    head, *rest = evidence_text(shown_by()).splitlines()
    assert head == "turn main/first: ended: exit, exit code 0"
    assert rest == [
        "  $ codex exec --json 'say '\"'\"'hello'\"'\"''",
        "  stdout: 26 bytes",
        '    | {"type":"thread.started"}',
        "  stderr: empty",
        REQUESTED,
    ]


@pytest.mark.parametrize(
    "requests, last",
    [
        (None, "  stderr: empty"),
        ([], "  the stub model backend received no request"),
        ([j.REQUEST] * (MOST_REQUESTS + 3), "  and 3 more requests"),
    ],
)
def test_requests_are_counted(requests: list[Any] | None, last: str) -> None:
    """The number of requests is shown, even 0, unless no backend was running."""
    assert evidence_text(shown_by(requests=requests)).splitlines()[-1] == last


def test_a_call_shows_what_was_sent_and_answered() -> None:
    """A request to the server is shown with its response, control characters escaped. A bare name refers to a turn."""
    call = CallEvidence("loop/asked", "POST", "/v1/runs", 400, '{"a": 1}', "no\x1b")
    assert evidence_text(["main/first", call]).splitlines() == [
        "turn main/first",
        "call loop/asked: POST /v1/runs, response 400",
        '  request: {"a": 1}',
        r"  response: no\x1b",
    ]
