"""Checks of own settings, strangers' workspaces and marks in prompts, on hand-made turns."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.clauses import Reason
from turngate.contract.engine_contract import EngineContract
from turngate.contract.hermetic import MachineNeed
from turngate.contract.home_and_workspace import ApprovalSetting, Redirect, SetupFile, ToolUse
from turngate.contract.launch import FileMark
from turngate.model import Mode
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.observations import NotObservedError, Turn

FILES = (SetupFile("{work}/x", "y"),)
HERMETIC = replace(t.CODEX.hermetic, command_call=ToolUse("run", {}))
CONTRACT: EngineContract = replace(
    t.CODEX,
    hermetic=HERMETIC,
    approval_settings=(ApprovalSetting("trust", FILES), ApprovalSetting("mode", FILES, alone=True)),
    redirects=(Redirect("env", "address", FILES, unset=("URL",)), Redirect("hook", "program", FILES)),
    file_marks=(FileMark("@(?P<path>.+)"),),
)
CALL = "interactive.tool-call"
WIDEN, REDIRECT, READ = "interactive.settings-cannot-widen", "workspace.cannot-redirect", "prompt.reads-no-file"
ASKED = [
    f"{group}-{call}{again}"
    for group in ("all", "mode")
    for call in ("tool_call", "command_call")
    for again in ("", "-again")
]
VISITED = [f"{mode}-{group}-{step}" for mode in Mode for group in ("offline", "all") for step in ("first", "again")]


def called(name: str, *, acted: bool = False, calls: int = 1, **more: Any) -> Turn:
    """Return a turn in which the model called so many tools."""
    tools = (HERMETIC.tool_call.name if HERMETIC.tool_call else "", "run", "mine_act")[:calls]
    requests = tuple(t.exchange(t.nonce(name), reply=f"tool_call {tool}") for tool in tools)
    return t.turn(name, acted=acted, requests=requests, **more)


def widened(*acting: str, controls: tuple[str, ...] = ("trust", "mode"), without: str = "") -> list[Turn]:
    """Return the turns of the case; in those of `acting` the call took effect, and `controls` name what works."""
    turns = [called(f"own-settings/{step}", acted=step in acting) for step in ASKED if step != without]
    turns += [called(f"own-settings/{group}-asked-model", calls=2) for group in ("all", "mode")]
    return [*turns, *(called(f"own-settings/control-{name}", acted=name in controls) for name in ("trust", "mode"))]


def visited(
    effects: dict[str, tuple[str, ...]] | None = None, controls: tuple[str, ...] = ("env", "hook")
) -> list[Turn]:
    """Return the turns in a stranger's repository, with the effects of each."""
    reported = effects or {}
    turns = [t.turn(f"workspace/{step}", effects=reported.get(step, ()), offline="offline" in step) for step in VISITED]
    return [
        *turns,
        *(t.turn(f"workspace/control-{name}", effects=(name,) * (name in controls)) for name in ("env", "hook")),
    ]


def asked(*acting: str, without: str = "") -> list[Turn]:
    """Return the turns of the case that calls a tool; in those of `acting` the call took effect."""
    steps = [step for step in ("first", "again", "auto") if step != without]
    return [called(f"tool-call/{step}", acted=step in acting) for step in steps]


def test_a_call_under_an_asked_model_counts_too() -> None:
    """A call that takes effect under a model that turns ask for fails, and one that has none is shown by a control."""
    first, again = (f"asked-model/{step}" for step in ("first", "again"))
    for acting in (called(first, acted=True), called(again, acted=True)):
        finding = t.check(CALL, *asked("auto"), acting, contract=CONTRACT)
        assert (finding.ok, finding.evidence) == (False, (acting.name,))
        assert "under stub-asked" in finding.detail
    for control, end in (
        (t.turn(again, written=("inside",)), "under stub-asked too"),
        (called("asked-model/auto", acted=True), "under stub-asked too"),
        (t.turn(again), "under stub-asked unproven"),
    ):
        finding = t.check(CALL, *asked("auto"), called(first), control, contract=CONTRACT)
        assert (finding.ok, finding.detail.rpartition("; ")[2]) == (True, end)


def test_a_tool_that_waits_for_approval_passes() -> None:
    """In mode auto it has its effect, or else the silence would show nothing."""
    finding = t.check(CALL, *asked("auto"), contract=CONTRACT)
    assert (finding.ok, len(finding.evidence)) == (True, 3)
    with pytest.raises(NotObservedError, match="had no effect in mode auto either") as caught:
        t.check(CALL, *asked(), contract=CONTRACT)
    assert caught.value.obstacle.reason is Reason.CONTRACT


@pytest.mark.parametrize("step", ["first", "again"])
def test_a_tool_that_takes_effect_unasked_fails(step: str) -> None:
    """Whatever was seen counts, even if later turns are missing; no symptom excuses it."""
    for turns in (asked(step, "auto"), asked(step, without="auto")):
        finding = t.check(CALL, *turns, contract=CONTRACT)
        assert (finding.ok, finding.symptoms, finding.evidence) == (False, (), (f"tool-call/{step}",))


def test_a_contract_without_a_tool_call_leaves_the_clause_unanswered() -> None:
    """So no release of its engine can be compatible."""
    contract = replace(CONTRACT, hermetic=replace(HERMETIC, tool_call=None))
    with pytest.raises(NotObservedError, match="names no tool") as caught:
        t.check(CALL, contract=contract)
    assert caught.value.obstacle.reason is Reason.CONTRACT


def test_a_recording_does_not_show_what_became_of_a_call() -> None:
    """It says nothing about the clause."""
    recorded = [replace(turn, acted=None) for turn in asked()]
    with pytest.raises(NotObservedError, match="doesn't show") as caught:
        t.check(CALL, *recorded, contract=CONTRACT)
    assert caught.value.obstacle.reason is Reason.NO_RECORDING


def test_a_model_that_is_not_asked_calls_no_tool() -> None:
    """Then nothing is shown, and the engine is to blame."""
    silent = t.turn("tool-call/again", requests=(), acted=False)
    with pytest.raises(NotObservedError, match="could call nothing") as caught:
        t.check(CALL, *asked("auto", without="again"), silent, contract=CONTRACT)
    assert caught.value.obstacle.by_engine


def test_a_sandbox_that_the_machine_lacks_shows_nothing() -> None:
    """The call in mode auto has no effect, and the engine says that it needs something of the machine."""
    body = {"input": [{"type": "function_call_output", "output": "bwrap: No permissions to create a namespace"}]}
    requests = (
        t.exchange(t.nonce("tool-call/auto"), reply="tool_call run"),
        t.exchange(t.nonce("tool-call/auto"), body=json.dumps(body).encode()),
    )
    control = t.turn("tool-call/auto", requests=requests, acted=False)
    needs = (MachineNeed("user namespaces", "bwrap: No permissions"),)
    contract = replace(CONTRACT, hermetic=replace(HERMETIC, needs=needs))
    with pytest.raises(NotObservedError, match="lacks what the engine's sandbox needs") as caught:
        t.check(CALL, *asked(without="auto"), control, contract=contract)
    assert caught.value.obstacle.reason is Reason.MACHINE


def test_settings_without_effect_pass_where_the_control_runs_show_one() -> None:
    """What a control run does not show is named as unproven."""
    assert t.check(WIDEN, *widened(), contract=CONTRACT).ok
    finding = t.check(WIDEN, *widened(controls=("mode",)), contract=CONTRACT)
    assert "; unproven: trust; " in finding.detail


@pytest.mark.parametrize(
    "step, symptom",
    [("all-tool_call", "writes"), ("all-command_call-again", "runs"), ("mode-tool_call-again", "writes")],
)
def test_a_call_that_takes_effect_fails(step: str, symptom: str) -> None:
    """Also in a resume, and also if a later turn of the case is missing."""
    finding = t.check(WIDEN, *widened(step, without="mode-command_call"), contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, (symptom,), (f"own-settings/{step}",))
    assert ("by mode" if step.startswith("mode") else "by trust") in finding.detail


@pytest.mark.parametrize("call, symptom", [("tool_call", "writes"), ("command_call", "runs")])
def test_a_call_that_takes_effect_under_an_asked_model_fails(call: str, symptom: str) -> None:
    """The release's own model keeps to its user's settings, another one does not."""
    done = {"acted": True} if call == "tool_call" else {"written": (call,)}
    acting = called("own-settings/mode-asked-model", calls=2, **done)
    turns = [*(turn for turn in widened(without="mode-command_call") if turn.name != acting.name), acting]
    finding = t.check(WIDEN, *turns, contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, (symptom,), (acting.name,))
    assert finding.detail.endswith(f"by mode, under {CONTRACT.hermetic.model}")


@pytest.mark.parametrize("calls, control, shown", [(2, True, "too"), (1, True, "unproven"), (2, False, "unproven")])
def test_a_pass_says_whether_it_holds_under_an_asked_model(calls: int, *, control: bool, shown: str) -> None:
    """It does if that model made all calls, and one took effect in mode auto."""
    ends_early = called("own-settings/all-asked-model", calls=calls)
    turns = [*(turn for turn in widened() if turn.name != ends_early.name), ends_early]
    turns.append(called("asked-model/auto", acted=control))
    finding = t.check(WIDEN, *turns, contract=CONTRACT)
    assert (finding.ok, finding.detail.split("; ")[-1]) == (True, f"under {CONTRACT.hermetic.model} {shown}")


def test_a_contract_without_a_default_model_asks_for_no_other() -> None:
    """There, all turns ask for the contract's model."""
    contract = replace(CONTRACT, hermetic=replace(HERMETIC, default_model=None))
    turns = [turn for turn in widened() if not turn.name.endswith("-asked-model")]
    assert "under" not in t.check(WIDEN, *turns, contract=contract).detail


def test_a_tool_that_a_setting_adds_is_called_too() -> None:
    """It fails with a symptom of its own, and is called only together with the setting that adds it."""
    adds = ApprovalSetting("server", FILES, tool=ToolUse("mine_act", {}), alone=True)
    contract = replace(CONTRACT, approval_settings=(*CONTRACT.approval_settings, adds))
    calls = ("tool_call", "command_call", "server")
    alone = [f"own-settings/server-{call}{again}" for call in calls for again in ("", "-again")]
    control = called("own-settings/control-server", acted=True)
    under_asked = called("own-settings/server-asked-model", calls=3)
    turns = [*widened(), control, under_asked, *map(called, alone)]
    assert t.check(WIDEN, *turns, contract=contract).detail.count("server") == 1
    turns = [*turns[:-1], called(alone[-1], acted=True)]
    assert t.check(WIDEN, *turns, contract=contract).symptoms == ("own-tool",)


def test_nothing_is_shown_by_a_model_that_calls_nothing_or_settings_that_never_work() -> None:
    """Silence without a call, or without an effect in any control run, is no pass."""
    silent = [t.turn("own-settings/all-tool_call", acted=False), *widened(without="all-tool_call")]
    with pytest.raises(NotObservedError, match="could call nothing"):
        t.check(WIDEN, *silent, contract=CONTRACT)
    with pytest.raises(NotObservedError, match="no control run") as raised:
        t.check(WIDEN, *widened(controls=()), contract=CONTRACT)
    assert raised.value.obstacle.reason is Reason.CONTRACT


def test_a_workspace_without_effect_passes_in_both_modes() -> None:
    """Turns that can't reach their model need not go well; the others must."""
    assert t.check(REDIRECT, *visited(), contract=CONTRACT).ok
    failed = [t.refused("workspace/auto-all-first", effects=()), *visited()[1:]]
    assert (
        t.check(REDIRECT, *[turn for turn in visited() if turn.name != failed[0].name], failed[0], contract=CONTRACT).ok
        is False
    )


@each("step", VISITED)
def test_an_effect_in_any_turn_fails(step: str) -> None:
    """The kind of the redirect is the symptom."""
    finding = t.check(REDIRECT, *visited({step: ("hook",)}), contract=CONTRACT)
    assert (finding.ok, finding.symptoms) == (False, ("program",))


@pytest.mark.parametrize("step", ["first", "again"])
def test_a_file_that_reaches_the_model_fails(step: str) -> None:
    """A nonce that no prompt holds is the content of the file."""
    turns = {name: t.turn(f"file-marks/{name}") for name in ("first", "again")}
    control = t.turn("file-marks/control", requests=(t.exchange("tgn-00000000000000ff"),))
    assert t.check(READ, *turns.values(), control, contract=CONTRACT).ok
    leaked = t.turn(f"file-marks/{step}", requests=(t.exchange("tgn-00000000000000ff", t.nonce(f"file-marks/{step}")),))
    finding = t.check(READ, *(turns | {step: leaked}).values(), control, contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (False, (f"file-marks/{step}",))


def test_marks_that_the_control_run_does_not_show_are_unproven() -> None:
    """The contract refuses a mark by which the engine reads nothing."""
    turns = [t.turn(f"file-marks/{name}") for name in ("first", "again", "control")]
    assert "unproven" in t.check(READ, *turns, contract=CONTRACT).detail
    assert "unproven" not in t.check(READ, *turns[:2], contract=replace(CONTRACT, file_marks=())).detail


@pytest.mark.parametrize("clause, lacks", [(WIDEN, {"approval_settings": ()}), (REDIRECT, {"redirects": ()})])
def test_a_contract_that_names_nothing_asks_nothing(clause: str, lacks: dict[str, Any]) -> None:
    """Without entries the clause is skipped."""
    with pytest.raises(SkippedError, match="names no"):
        t.check(clause, contract=replace(CONTRACT, **lacks))
