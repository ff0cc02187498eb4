"""Tests of the state that a turn leads to, and which error code wins if several things went wrong."""

import json
from itertools import product
from typing import Any, cast

from tests.contracts.releases import IDS, NEWEST
from tests.contracts.transcripts import lines
from tests.tables import each
from turngate.model import AdapterTurnResult, Ended, Failure, Interaction, Mode, Outcome
from turngate.turn.read import TurnReader
from turngate_reference.server.orchestrator.decide import decide, decide_kept, fails_turn, fails_waiting
from turngate_reference.server.orchestrator.kept_states import KeptCause, KeptEvent
from turngate_reference.server.output_schema.worker import data_flaw
from turngate_reference.server.requests import RunRequest
from turngate_reference.server.store.runs import Run
from turngate_reference.server.transports.events import Lost
from turngate_reference.server.web import openapi
from turngate_reference.states import TRANSITIONS, RunErrorCode, State

ASKED = AdapterTurnResult(Outcome.ASK_USER, interaction=Interaction("confirm", "Sure?"))
DONE = AdapterTurnResult(Outcome.FINAL, final_data={"x": 1})
WRONG = AdapterTurnResult(Outcome.ERROR, failure_reason="TURN_TIMEOUT: still running")
LOST = "INTERACTION_PROCESS_LOST"
ORDER = openapi.document()["x-turngate"]["error_order"]
OTHER = "00000000-0000-7000-8000-000000000000"
# the ways in which an uninterrupted turn can fail, in order of precedence
FAULTS = ("late", "failed", "astray", "unfinished", "blank", "no envelope")
CODES = {"late": 2, "failed": 3, "astray": 4, "unfinished": 5, "blank": 6, "no envelope": 7}


@each(
    "result, mode, more, expected",
    [
        (WRONG, Mode.INTERACTIVE, {}, (State.FAILED, "TURN_TIMEOUT")),
        (ASKED, Mode.AUTO, {}, (State.FAILED, "ASK_USER_IN_AUTO")),
        (ASKED, Mode.INTERACTIVE, {}, (State.WAITING_USER, None)),
        (ASKED, Mode.INTERACTIVE, {"can_wait": False}, (State.FAILED, "INTERACTION_PROCESS_LOST")),
        (DONE, Mode.AUTO, {}, (State.SUCCEEDED, None)),
        (DONE, Mode.AUTO, {"output_schema": {"required": ["y"]}}, (State.FAILED, "FINAL_DATA_INVALID")),
        (DONE, Mode.AUTO, {"output_schema": {"$ref": "#/nowhere"}}, (State.FAILED, "FINAL_DATA_INVALID")),
    ],
)
def test_the_first_that_applies_names_it(
    result: AdapterTurnResult, mode: Mode, more: dict[str, Any], expected: tuple[State, str | None]
) -> None:
    """The turn reader's error comes first, then the mode's, then the output schema's."""
    decision = decide(result, mode, **{"can_wait": True, "output_schema": None, "data_flaw": data_flaw} | more)
    assert (decision.state, decision.error and decision.error.code) == expected
    assert TRANSITIONS[State.RUNNING][decision.cause] is decision.state


def test_every_failure_of_a_turn_has_a_code_of_a_run() -> None:
    """Every failure code of the turn reader is also an error code of runs."""
    assert {failure.value for failure in Failure} <= {code.value for code in RunErrorCode}


@each(
    "mode, text, expected",
    [
        (Mode.INTERACTIVE, None, (State.WAITING_USER, None)),
        (Mode.AUTO, None, (State.FAILED, "ENGINE_FAILED")),
        (Mode.AUTO, "\n ", (State.FAILED, "ENGINE_FAILED")),
        (Mode.AUTO, "so be it", (State.SUCCEEDED, None)),
    ],
)
def test_a_turn_without_a_text_after_a_refusal(
    mode: Mode, text: str | None, expected: tuple[State, str | None]
) -> None:
    """The user is asked what to do instead; without a user it is no answer."""
    run = cast(
        Run, type("Run", (), {"execution_mode": mode, "launch": RunRequest.of({"engine": "codex", "prompt": "x"})})
    )
    decision, _ = decide_kept(run, text, declined=True, data_flaw=data_flaw)
    assert (decision.state, decision.error and decision.error.code) == expected


def test_data_that_is_too_large_is_refused() -> None:
    """Final data beyond the size limit is rejected."""
    huge = AdapterTurnResult(Outcome.FINAL, final_data={"x": "y" * (5 * 2**20)})
    decision = decide(huge, Mode.AUTO, can_wait=True, output_schema=None, data_flaw=data_flaw)
    assert decision.error
    assert decision.error.code == "FINAL_DATA_INVALID"


def code_of(faults: set[str], *, resumed: bool, reported: bool) -> str:
    """Return the code of an interactive, resumable turn with these faults."""
    session = IDS["codex"] if "astray" not in faults else OTHER if resumed else None
    records: list[dict[str, object]] = [{"type": "thread.started", "thread_id": session}] if session else []
    text = "no envelope" if "no envelope" in faults else json.dumps({"outcome": "final", "final_data": {}})
    text = "\n " if "blank" in faults else text
    records.append({"type": "item.completed", "item": {"type": "agent_message", "text": text}})
    if reported and "failed" in faults:
        records.append({"type": "turn.failed", "error": {"message": "no quota"}})
    if "unfinished" not in faults:
        records.append({"type": "turn.completed"})
    reader = TurnReader(NEWEST["codex"], Mode.INTERACTIVE, resumed=IDS["codex"] if resumed else None)
    reader.feed("stdout", lines(*records).encode())
    ended = Ended.TIMEOUT if "late" in faults else Ended.EXIT
    reading = reader.finish(int("failed" in faults and not reported), ended=ended)
    decision = decide(reading.result, Mode.INTERACTIVE, can_wait=True, output_schema=None, data_flaw=data_flaw)
    assert decision.state is State.FAILED
    assert decision.error
    return decision.error.code


@each("resumed", [False, True])
@each("reported", [False, True])
def test_the_first_fault_of_the_list_names_the_turn(*, resumed: bool, reported: bool) -> None:
    """If several things went wrong, the code is that of the first applicable entry in the list."""
    for chosen in product((False, True), repeat=len(FAULTS)):
        faults = [fault for fault, there in zip(FAULTS, chosen, strict=True) if there]
        if not faults:
            continue
        codes = ORDER[CODES[faults[0]]]["codes"]
        assert code_of(set(faults), resumed=resumed, reported=reported) == codes[-1 if resumed else 0], faults


def test_the_list_knows_every_code_of_a_turn() -> None:
    """Codes not in the list belong to turns that never ran, to waits, and to failures of the server itself."""
    listed = {code for step in ORDER for code in step["codes"]}
    assert set(RunErrorCode) - listed == {
        "INTERACTION_WAIT_TIMEOUT",
        "ENGINE_UNAVAILABLE",
        "WORKSPACE_UNAVAILABLE",
        "SESSION_STORE_UNAVAILABLE",
        "ENGINE_UNSAFE",
        "PROMPT_REFUSED",
        "OPTION_REFUSED",
        "ORCHESTRATOR_ERROR",
    }
    assert all(step["when"] for step in ORDER)


@each(
    "end, first, later, waiting",
    [
        (Lost("it has exited"), "ENGINE_FAILED", LOST, LOST),
        (Lost("turngate failed", ours=True), "ORCHESTRATOR_ERROR", "ORCHESTRATOR_ERROR", LOST),
        (KeptCause.END, "ORCHESTRATOR_RESTART_INTERRUPTED", "ORCHESTRATOR_RESTART_INTERRUPTED", LOST),
        (KeptCause.TOO_LATE, "TURN_TIMEOUT", "TURN_TIMEOUT", "INTERACTION_WAIT_TIMEOUT"),
    ],
)
def test_the_code_says_who_is_to_blame(end: KeptEvent, first: str, later: str, waiting: str) -> None:
    """Before the user was asked, it is the engine; afterwards, it is the loss, unless turngate caused that."""
    decided = (fails_turn(end, has_asked=False), fails_turn(end, has_asked=True), fails_waiting(end, 60))
    assert [decision.error and decision.error.code for decision in decided] == [first, later, waiting]
