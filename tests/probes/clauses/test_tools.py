"""Checks of questions that the agent asks by a tool and of commands in a sandbox, on hand-made turns."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.clauses import Reason
from turngate.contract.hermetic import MachineNeed
from turngate.contract.home_and_workspace import CommandSandbox, QuestionCall, ToolUse
from turngate.model import Ended, Mode
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.harness.tool_cases import OUTSIDE, question_mark, terms
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
        requests += (t.exchange(t.nonce(name), tools=("ask",), body=output(answer)),)
    return t.turn(name, mode=Mode(mode), **{"requests": requests} | changes)


def output(text: str) -> bytes:
    """Return the body of a request that tells the model what came of its call."""
    return json.dumps({"input": [{"type": "function_call_output", "call_id": "1", "output": text}]}).encode()


def mark(mode: str = "auto") -> str:
    """Return the word of the question of a turn."""
    return question_mark(t.nonce(f"tool-call/{mode}-question"), CALL)


def test_a_tool_that_is_not_offered_passes() -> None:
    """Nothing can be asked, as the offered tools show, unless the release has renamed the tool."""
    finding = t.check(CLAUSE, *showing("shell"), contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (True, tuple(SHOWN.values()))
    assert finding.detail == "none is offered in mode interactive; none is offered in mode auto; unproven: ask"


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
    assert "unproven" not in finding.detail


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


SANDBOXED = replace(
    t.CODEX, command_sandboxes=(CommandSandbox("own", call=ToolUse("run", {"command": "{command}"})),), deviations=()
)
RUNS, RAN = "sandbox.command-runs", "sandbox/own"
SUM = sum(terms("own"))


def running(failing: str = "exit code 113", adding: str = f"{SUM}\n", calls: int = 2, **changes: Any) -> Turn:
    """Return the turn in which the model runs both commands, and gets these results."""
    replies = [*["tool_call run"] * calls, "text"]
    bodies = [b"{}", output(failing), output(adding)]
    requests = tuple(
        t.exchange(t.nonce(RAN), reply=reply, body=body) for reply, body in zip(replies, bodies, strict=False)
    )
    return t.turn(RAN, mode=Mode.AUTO, **{"requests": requests} | changes)


def test_commands_that_run_in_the_sandbox_pass() -> None:
    """The model got the sum and the exit code."""
    finding = t.check(RUNS, running(), contract=SANDBOXED)
    assert (finding.ok, finding.evidence) == (True, (RAN,))


@each(
    "ran, symptom, detail",
    [
        ({"adding": "signal 31"}, "no-output", "which was told: signal 31"),
        ({"adding": f"1{SUM}"}, "no-output", "did not reach the model"),
        ({"failing": "done in 1.113 s, or 1130 ms"}, "failure-untold", "told: done in 1.113 s"),
        ({"failing": ""}, "failure-untold", "failed with exit code 113"),
        ({"ended": Ended.STOPPED, "exit_code": None, "calls": 1}, "hang", "the turn hangs at a command"),
    ],
)
def test_a_sandbox_that_breaks_commands_fails(ran: dict[str, Any], symptom: str, detail: str) -> None:
    """Lost output, an untold failure and a turn that waits have a symptom each, although the turn may succeed."""
    finding = t.check(RUNS, running(**ran), contract=SANDBOXED)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, (symptom,), (RAN,))
    assert detail in finding.detail


def test_a_sandbox_that_is_not_on_shows_nothing() -> None:
    """A command wrote outside, so that the settings had no effect."""
    with pytest.raises(NotObservedError, match="so that no sandbox was on") as unseen:
        t.check(RUNS, running(written=(OUTSIDE,)), contract=SANDBOXED)
    assert unseen.value.obstacle.reason is Reason.CONTRACT


def test_a_machine_without_user_namespaces_shows_nothing() -> None:
    """The engine tells the model what its sandbox lacks, and the contract knows how."""
    needs = (MachineNeed("user namespaces", "bwrap: Creating new namespace failed"),)
    contract = replace(SANDBOXED, hermetic=replace(SANDBOXED.hermetic, needs=needs))
    failed = "bwrap: Creating new namespace failed: No space left on device"
    with pytest.raises(NotObservedError, match="lacks what the engine's sandbox needs, user namespaces") as unseen:
        t.check(RUNS, running(failing=failed, adding=failed), contract=contract)
    assert unseen.value.obstacle.reason is Reason.MACHINE


def test_commands_that_were_not_called_show_nothing() -> None:
    """A model that was asked once could run one command only."""
    with pytest.raises(NotObservedError, match="the model made 1 of 2 calls"):
        t.check(RUNS, running(calls=1), contract=SANDBOXED)


@each(
    "sandboxes, reason",
    [((), "names no sandbox"), ((CommandSandbox("container", unsupported="it needs Docker"),), "it needs Docker")],
)
def test_a_sandbox_that_no_probe_can_try_is_not_tested(sandboxes: tuple[CommandSandbox, ...], reason: str) -> None:
    """The contract says why."""
    with pytest.raises(SkippedError, match=reason):
        t.check(RUNS, contract=replace(SANDBOXED, command_sandboxes=sandboxes))
