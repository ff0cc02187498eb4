import json
from typing import Any

import msgspec
import pytest

from turngate.contract.verdict import CallEvidence, Evidence, TurnEvidence, decode_hook
from turngate.decoding import convert

CALL = {"call": "reply", "method": "POST", "path": "/", "status": 200, "sent": None, "answer": "{}"}
STREAM = {"bytes": 1, "excerpt": "a"}
TURN = {
    "turn": "main/first",
    "argv": ["codex"],
    "exit_code": 0,
    "ended": "exit",
    "stdout": STREAM,
    "stderr": STREAM,
    "requests": None,
    "requests_seen": None,
}


def read(value: Any) -> Any:
    """Read a list of evidence from JSON, as in a report."""
    return convert([value], tuple[Evidence, ...], dec_hook=decode_hook)[0]


@pytest.mark.parametrize("value, kind", [("main/first", str), (TURN, TurnEvidence), (CALL, CallEvidence)])
def test_evidence_round_trips(value: Any, kind: type) -> None:
    """A turn's name, a turn and a request are distinguished, and written as they were read."""
    evidence = read(value)
    assert isinstance(evidence, kind)
    assert json.loads(msgspec.json.encode(evidence)) == value


@pytest.mark.parametrize(
    "value, message",
    [
        ("", "Expected `str` of length >= 1"),
        (7, "Expected `object`, got `int`"),
        (TURN | {"ended": "gone"}, "Invalid enum value 'gone'"),
        (CALL | {"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_wrong_evidence_is_refused_with_its_place(value: Any, message: str) -> None:
    """Evidence of an unknown kind is an error with its place."""
    with pytest.raises(msgspec.ValidationError, match=message) as raised:
        read(value)
    assert "$[" in str(raised.value)


def test_hook_knows_evidence_alone() -> None:
    """The hook decodes only evidence; msgspec handles all other classes."""
    with pytest.raises(NotImplementedError):
        decode_hook(bytes, b"")
