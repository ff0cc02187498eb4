"""Checks of questions that the agent asks by a tool, on hand-made turns."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.home_and_workspace import QuestionCall
from turngate.model import Ended, Mode
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.harness.tool_cases import question_mark
from turngate_probes.stub_model import Exchange

CLAUSE = "question.is-told"
CALL = QuestionCall("question", "ask", {"question": "{question}"}, refused="nobody can answer")
CONTRACT = replace(t.CODEX, question_calls=(CALL,), deviations=())
SHOWN = {"interactive": "tool-call/first", "auto": "tool-call/auto"}


def showing(*tools: str) -> list[Turn]:
    """Return the turns that show which tools each mode offers."""
    return [
        t.turn(name, mode=Mode(mode), requests=(t.exchange(t.nonce(name), tools=tools),))
        for mode, name in SHOWN.items()
    ]


def asking(mode: str = "auto", answer: str | None = None, **changes: Any) -> Turn:
    """Return the turn in which the model asks by the tool, and gets this answer (None: no further request)."""
    name = f"tool-call/{mode}-question"
    requests: tuple[Exchange, ...] = (t.exchange(t.nonce(name), tools=("ask",), reply="tool_call ask"),)
    if answer is not None:
        body = json.dumps({"input": [{"type": "function_call_output", "call_id": "1", "output": answer}]}).encode()
        requests += (t.exchange(t.nonce(name), tools=("ask",), body=body),)
    return t.turn(name, mode=Mode(mode), **{"requests": requests} | changes)


def mark(mode: str = "auto") -> str:
    """Return the word of the question of a turn."""
    return question_mark(t.nonce(f"tool-call/{mode}-question"), CALL)


def test_a_tool_that_is_not_offered_passes() -> None:
    """Nothing can be asked, as the offered tools show."""
    finding = t.check(CLAUSE, *showing("shell"), contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (True, tuple(SHOWN.values()))
    assert finding.detail == "none is offered in mode interactive; none is offered in mode auto"


@each(
    "asked, told",
    [
        ({"answer": "Error: nobody can answer here"}, "the model was told that nobody answers: Error: nobody can"),
        ({"answer": "red", "stdout": t.printed(text=mark())}, "its question reached the caller"),
    ],
)
def test_a_question_that_is_told_passes(asked: dict[str, Any], told: str) -> None:
    """The engine told the model that it asks nobody, or the caller can read the question."""
    first, auto = showing("shell")[0], showing("shell", "ask")[1]
    finding = t.check(CLAUSE, first, auto, asking(**asked), contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (True, ("tool-call/first", "tool-call/auto-question"))
    assert f"ask in mode auto: {told}" in finding.detail


@each("mode", [*SHOWN])
@each(
    "asked, symptom, detail",
    [
        ({"answer": "The user chose red."}, "silently-answered", "reached nobody, and the model was told: The user"),
        ({"answer": "red", "stderr": mark().encode()}, "silently-answered", "and the model was told: red"),
        ({}, "dropped", "nobody was told of it"),
        ({"ended": Ended.STOPPED, "exit_code": None}, "hang", "the turn hangs at a question by ask"),
    ],
)
def test_a_question_that_nobody_is_told_fails(mode: str, asked: dict[str, Any], symptom: str, detail: str) -> None:
    """A made-up answer, a lost question and a turn that waits have a symptom each; a log is not read by callers."""
    shown = [turn if turn.mode == mode else plain for turn, plain in zip(showing("ask"), showing("shell"), strict=True)]
    finding = t.check(CLAUSE, *shown, asking(mode, **asked), contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, (symptom,), (f"tool-call/{mode}-question",))
    assert detail in finding.detail


def test_a_call_that_was_not_made_shows_nothing() -> None:
    """A model that was not asked could not ask its user; a request without tools shows none."""
    with pytest.raises(NotObservedError, match="could not call ask"):
        t.check(CLAUSE, *showing("ask"), asking("interactive", requests=()), contract=CONTRACT)
    with pytest.raises(NotObservedError, match="offered the model no tools"):
        t.check(CLAUSE, *showing(), contract=CONTRACT)


def test_a_release_without_such_a_tool_is_not_tested() -> None:
    """A contract that names none makes no promise."""
    with pytest.raises(SkippedError):
        t.check(CLAUSE, contract=replace(CONTRACT, question_calls=()))
