"""Checks of a sticky process, on hand-made server runs."""

import json

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.probes.server_level import server_runs as v
from tests.tables import each
from turngate.contract import load
from turngate.contract.clauses import Reason
from turngate.contract.hermetic import MachineNeed
from turngate.contract.home_and_workspace import ApprovalSetting, Redirect, SetupFile, ToolUse
from turngate.contract.load import catalogue
from turngate.process.sessions import Leftover
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.driver import ANSWER, QUESTION
from turngate_probes.harness.observations import NotObservedError, Observation, Turn

CLAUSES = {clause.id for clause in catalogue().at_level("server") if clause.id.startswith("sticky.")}
FILES = (SetupFile("{work}/x", "y"),)
SURROUNDED = replace(
    t.CODEX,
    hermetic=replace(t.CODEX.hermetic, tool_call=ToolUse("write", {}), command_call=ToolUse("run", {})),
    approval_settings=(ApprovalSetting("trust", FILES),),
    sticky=replace(t.CODEX.sticky, transport="acp"),
    redirects=(Redirect("env", "address", FILES, unset=("URL",)), Redirect("hook", "program", FILES)),
)
TEXT = b'{"params": {"update": {"sessionUpdate": "agent_message_chunk"}}}\n'
END = b'{"id": 3, "result": {"stopReason": "end_turn"}}\n'
PROCESS = Leftover(7, ("codex", "app-server"), survived=True)
CALLS = ("tool_call", "command_call")
DECISIONS = [(how, call) for how in ("allowed", "declined") for call in CALLS]
STICKY = {"kind": "sticky_process", "reason": "the run requested it", "session_timeout_sec": 120}
LOST, LATE = "INTERACTION_PROCESS_LOST", "INTERACTION_WAIT_TIMEOUT"


def turn(name: str, *carries: str, runs: bool = True, text: str = QUESTION, **changes: object) -> Turn:
    """Return a turn of a sticky process; with `runs` the process is still running afterwards."""
    return v.turn(
        f"sticky/{name}",
        *(f"sticky/{earlier}" for earlier in carries),
        text=text,
        **{
            "argv": ("codex", "app-server"),
            "leftovers": (PROCESS,) if runs else (),
            "resumed": None,
            "stdout": TEXT + END,
        }
        | changes,
    )


def permission(**changes: object) -> Observation:
    """Return the permission request of an engine that asks before it acts."""
    return v.question("sticky/permission", **{"kind": "risk_ack", "options": ["accept", "decline"]} | changes)


def acting(step: str, *, acted: bool = False, called: bool = True) -> Turn:
    """Return a turn in which the model asks for a tool."""
    reply = "tool_call write" if called else "text"
    return v.turn(step, acted=acted, requests=(t.exchange(t.nonce(step), reply=reply),))


def good(*spoilt: Observation) -> list[Observation]:
    """Return the observations of good runs, with those in `spoilt` replacing others of the same name."""
    ends = ("late", LATE), ("killed", LOST), ("orphan", LOST)
    observations = [
        v.asked("sticky/asked", interactive_profile=STICKY),
        turn("turn-1"),
        v.asked("sticky/acting", turn_index=2),
        permission(),
        v.call("sticky/no-option", {}, 422, {"a": 1}),
        v.asked("sticky/unmoved"),
        v.reply("sticky/declined"),
        v.asked("sticky/asked-again", turn_index=2),
        turn("turn-2", "turn-1", requests=(t.exchange(t.nonce("sticky/turn-1"), reply="tool_call shell"),)),
        turn("turn-3", "turn-1", "turn-2", text=ANSWER, runs=False),
        v.ended("sticky/ended", data={"colour": "blue"}),
        *(v.asked(f"sticky-ends/{step}-asked") for step, _ in ends),
        *(v.ended(f"sticky-ends/{step}-ended", "failed", code) for step, code in ends),
        *(v.turn(f"sticky-ends/{step}") for step, _ in ends),
        *(acting(f"sticky-allowed/{how}-{call}", acted=how == "allowed") for how, call in DECISIONS),
        *(v.reply(f"sticky-allowed/{how}-{call}-answer") for how, call in DECISIONS),
        *(acting(f"sticky-own-settings/all-{call}") for call in CALLS),
        *(v.turn(f"sticky-workspace/{step}", effects=()) for step in ("offline-first", "all-first", "all-again")),
    ]
    instead = {item.name: item for item in spoilt}
    return [instead.pop(item.name, item) for item in observations] + list(instead.values())


SPOILT: dict[str, tuple[str, Observation]] = {
    "it is resumed": ("one-process", v.asked("sticky/asked")),
    "it is started again": ("one-process", turn("start-2")),
    "it is another process": ("one-process", turn("turn-2", leftovers=(t.leftover("codex"),))),
    "it is gone after a turn": ("one-process", turn("turn-1", runs=False)),
    "it was passed a flag": ("one-process", turn("turn-1", argv=("codex", "app-server", "--yolo"))),
    "its run fails": ("one-process", v.ended("sticky/ended", "failed", LOST)),
    "its data is another": ("one-process", v.ended("sticky/ended", data={"colour": "red"})),
    "it outlives its run": ("one-process", turn("turn-3", "turn-1", "turn-2")),
    "it forgets": ("context-carried", turn("turn-3", "turn-2")),
    "it prints a banner": ("framing", turn("turn-3", "turn-1", text=ANSWER, runs=False, stdout=b"{}\nWelcome!\n")),
    "it prints no object": ("framing", turn("turn-3", "turn-1", text=ANSWER, runs=False, stdout=b"[]\n")),
    "its text comes late": ("text-before-end", turn("turn-2", "turn-1", stdout=TEXT + END + TEXT + END + TEXT)),
    "it must be killed": ("ends-when-told", turn("turn-3", "turn-1", text=ANSWER, runs=False, exit_code=-9)),
    "it acts unasked": ("permission-asked", permission(kind="choose_one")),
    "it offers more than once": ("permission-asked", permission(options=["accept", "acceptForSession"])),
    "it offers nothing": ("permission-asked", permission(options=[])),
    "any word is taken": ("permission-asked", v.call("sticky/no-option", {}, 202, {"a": 1})),
    "a wrong word moves it": ("permission-asked", v.ended("sticky/unmoved", "failed", LOST)),
    "it can't be declined": ("permission-asked", v.reply("sticky/declined", 409)),
    "the decision begins a turn": ("permission-asked", v.asked("sticky/asked-again", turn_index=3)),
    "it waits forever": ("wait-timeout", v.asked("sticky-ends/late-ended")),
    "its timeout is a loss": ("wait-timeout", v.ended("sticky-ends/late-ended", "failed", LOST)),
    "it outlives its timeout": ("wait-timeout", v.turn("sticky-ends/late", leftovers=(PROCESS,))),
    "its death is a timeout": ("process-lost", v.ended("sticky-ends/killed-ended", "failed", LATE)),
    "a part of it lives on": ("process-lost", v.turn("sticky-ends/killed", leftovers=(PROCESS,))),
    "it waits after the restart": ("restart", v.asked("sticky-ends/orphan-ended")),
    "what is allowed fails": ("permission-allowed", acting("sticky-allowed/allowed-tool_call")),
    "what is declined is done": ("permission-allowed", acting("sticky-allowed/declined-command_call", acted=True)),
    "a setting lets it write": ("settings-cannot-widen", acting("sticky-own-settings/all-tool_call", acted=True)),
    "a setting lets it run": ("settings-cannot-widen", acting("sticky-own-settings/all-command_call", acted=True)),
    "it is redirected": ("workspace-cannot-redirect", v.turn("sticky-workspace/offline-first", effects=("env",))),
    "it starts a program": ("workspace-cannot-redirect", v.turn("sticky-workspace/all-again", effects=("hook",))),
    "the orphan lives on": ("restart", v.turn("sticky-ends/orphan", leftovers=(PROCESS,))),
}


@each("clause", sorted(CLAUSES))
def test_good_runs_pass(clause: str) -> None:
    """Good runs pass every clause, with evidence."""
    finding = t.check(clause, *good(), contract=SURROUNDED)
    assert finding.ok, finding.detail
    assert finding.evidence


@each("spoilt", SPOILT)
def test_what_goes_wrong_fails_its_clause(spoilt: str) -> None:
    """Each single fault fails the clause that covers it, with evidence."""
    name, observation = SPOILT[spoilt]
    finding = t.check(f"sticky.{name}", *good(observation), contract=SURROUNDED)
    assert not finding.ok
    assert finding.evidence


def test_what_the_machine_lacks_is_no_fault_of_the_engine() -> None:
    """The report shows what the engine says about an allowed call without effect, and if the machine is at fault."""
    step = "sticky-allowed/allowed-tool_call"
    result = json.dumps({"messages": [{"role": "tool", "content": "bwrap: no namespace"}]}).encode()
    called = t.exchange(t.nonce(step), reply="tool_call write")
    turn = v.turn(step, acted=False, requests=(called, t.exchange(t.nonce(step), body=result)))
    finding = t.check("sticky.permission-allowed", *good(turn), contract=SURROUNDED)
    assert finding.detail.startswith("write was allowed, but has no effect: bwrap: no namespace")
    needs = replace(SURROUNDED.hermetic, needs=(MachineNeed("user namespaces", "bwrap: no"),))
    with pytest.raises(NotObservedError, match=r"lacks .*user namespaces: bwrap: no namespace") as refused:
        t.check("sticky.permission-allowed", *good(turn), contract=replace(SURROUNDED, hermetic=needs))
    assert refused.value.obstacle.reason is Reason.MACHINE


def test_every_clause_can_fail() -> None:
    """The faults above cover every clause."""
    assert {f"sticky.{name}" for name, _ in SPOILT.values()} == CLAUSES


@each("clause", [c.id for c in catalogue().at_level("server") if c.id in CLAUSES and not c.needs])
def test_without_a_sticky_transport_clauses_are_skipped(clause: str) -> None:
    """An engine that keeps no process promises nothing about one; what needs another of these clauses is not run."""
    none = replace(SURROUNDED, sticky=replace(SURROUNDED.sticky, transport="none"))
    with pytest.raises(SkippedError, match="no sticky transport"):
        t.check(clause, *good(), contract=none)


def test_without_a_tool_call_asking_is_left_open() -> None:
    """The permission clause is skipped if the contract names no tool."""
    known = load.contract("codex").at("0.169.0")
    without = replace(known, hermetic=replace(known.hermetic, tool_call=None))
    with pytest.raises(SkippedError, match="names no tool"):
        t.check("sticky.permission-asked", *good(), contract=without)


def test_a_process_that_prints_nothing_shows_no_framing() -> None:
    """Without any output of the process, the clause about its messages is not run."""
    with pytest.raises(NotObservedError, match="printed nothing"):
        t.check("sticky.framing", *good(turn("turn-3", "turn-1", "turn-2", runs=False, stdout=b"")))


def test_a_tool_call_that_never_arrived_needs_no_permission() -> None:
    """If no request could be answered with the tool call, the engine was never asked to act."""
    with pytest.raises(NotObservedError, match="no request that the model could answer"):
        t.check("sticky.permission-asked", *good(turn("turn-2", "turn-1")))


def test_settings_show_nothing_to_a_model_that_is_not_asked() -> None:
    """If no request could be answered with a call, nothing could take effect."""
    silent = acting("sticky-own-settings/all-tool_call", called=False)
    with pytest.raises(NotObservedError, match="could call nothing"):
        t.check("sticky.settings-cannot-widen", *good(silent), contract=SURROUNDED)


def test_a_run_that_the_server_rejects_as_unsafe_is_safe() -> None:
    """It is named in the finding, and settings of other runs are judged all the same."""
    contract = replace(
        SURROUNDED, approval_settings=(*SURROUNDED.approval_settings, ApprovalSetting("rules", FILES, alone=True))
    )
    rejected = v.call("sticky-own-settings/rules-tool_call-create", {"code": "ENGINE_UNSAFE"}, 422)
    clause = "sticky.settings-cannot-widen"
    finding = t.check(clause, *good(rejected), contract=contract)
    assert finding.ok
    assert finding.detail == "nothing took effect with trust; the server takes no run with rules"
    spoilt = acting("sticky-own-settings/all-command_call", acted=True)
    assert t.check(clause, *good(rejected, spoilt), contract=contract).symptoms == ("runs",)
    other = v.call("sticky-own-settings/rules-tool_call-create", {"code": "INVALID_REQUEST"}, 422)
    with pytest.raises(NotObservedError):
        t.check(clause, *good(other), contract=contract)
