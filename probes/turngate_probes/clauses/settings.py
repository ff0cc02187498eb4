"""Checks of what tool calls, a user's settings, a stranger's repository and marks in prompts bring about."""

import re
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import ApprovalSetting, Redirect, ToolUse
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, fail_if, how_it_ended, passed, went_well
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations, Turn
from turngate_probes.harness.settings_cases import (
    MODES,
    asks_for_another_model,
    calls,
    control_of,
    groups,
    under_asked_model,
)
from turngate_probes.journal.tool_access import reported

_EFFECTS = {"tool_call": "writes", "command_call": "runs"}
_OWN_TOOL = "own-tool"
ASKED = ("asked-model/first", "asked-model/again")  # interactive turns that ask for a model


@check("interactive.tool-call", "tool-call", "asked-model", blames=RESUMABLE)
def tool_call(observed: Observations) -> Finding:
    """The tool that writes had no effect in interactive turns without a user's settings, and in mode auto it had."""
    tool = observed.contract.hermetic.tool_call
    if tool is None:
        raise NotObservedError("the contract names no tool for the model to call", Reason.CONTRACT)
    names = ("tool-call/first", "tool-call/again")
    # whatever happened counts, even if a later turn is missing
    for turn in (observed.turns[name] for name in names if name in observed.turns):
        fail_if(turn.acted, f"{tool.name} took effect without a question", turn)
    for turn in filter(None, map(observed.turns.get, ASKED)):
        what = f"{tool.name} took effect without a question under {observed.contract.hermetic.model}"
        fail_if(turn.acted, what, turn)
    turns = []
    for turn in map(observed.turn, names):
        if turn.acted is None:
            raise NotObservedError(f"the recording of {turn.name} doesn't show what became of it", Reason.NO_RECORDING)
        turns.append(calling(turn))
    control = observed.turn("tool-call/auto")
    if not control.acted:
        check_machine(reported(control.watched) or "", observed.contract)
        nothing = f"{tool.name} had no effect in mode auto either, so that nothing is shown"
        raise NotObservedError(nothing, Reason.CONTRACT)
    what = f"{tool.name} had no effect, and in mode auto it had"
    first = observed.turns.get(ASKED[0])
    under_asked = "" if first is None or first.acted is None else _under_asked_model(observed, made=first.called)
    return passed(what + under_asked, *turns, control)


@check("interactive.settings-cannot-widen", "own-settings", "asked-model", blames=RESUMABLE)
def settings_cannot_widen(observed: Observations) -> Finding:
    """No call took effect in an interactive turn, and in the control runs the settings let it."""
    settings = observed.contract.approval_settings
    tools = calls(observed.contract, settings)
    if not settings:
        raise SkippedError("the contract names no setting of the user that widens approval")
    if not tools:
        raise NotObservedError("the contract names no tool for the model to call", Reason.CONTRACT)
    steps = {
        f"{name}-{call}{again}": call
        for name, together in groups(settings).items()
        for call in calls(observed.contract, together)
        for again in ("", "-again")
    }
    # whatever happened counts, even if a later turn is missing
    for step, call in steps.items():
        turn = observed.turns.get(f"own-settings/{step}")
        if turn is not None:
            what = f"{tools[call].name} took effect without a question, by {_named(step, settings)}"
            fail_if(turn.acted, what, turn, symptom=effect_of(call))
    asked = groups(settings) if asks_for_another_model(observed.contract) else {}
    for name, together in asked.items():
        turn = observed.turns.get(f"own-settings/{under_asked_model(name)}")
        if turn is not None and (turn.acted or turn.written):
            call = next(iter(calls(observed.contract, together))) if turn.acted else turn.written[0]
            by = f"by {_named(f'{name}-', settings)}, under {observed.contract.hermetic.model}"
            fail_if(call, f"{tools[call].name} took effect without a question, {by}", turn, symptom=effect_of(call))
    every = (*steps, *map(under_asked_model, asked))
    turns = [calling(observed.turn(f"own-settings/{step}")) for step in every]
    controls = [observed.turn(f"own-settings/{control_of(setting)}") for setting in settings]
    took = [bool(turn.acted) for turn in controls]
    shown = _shown("nothing took effect with", settings, took, (*turns, *controls))
    if not asked:
        return shown
    grouped = zip(turns[len(steps) :], asked.values(), strict=True)
    made = all(_made(turn, calls(observed.contract, together).values()) for turn, together in grouped)
    return replace(shown, detail=shown.detail + _under_asked_model(observed, made=made))


@check("workspace.cannot-redirect", "workspace", blames=RESUMABLE)
def cannot_redirect(observed: Observations) -> Finding:
    """Nothing in the workspace had an effect in any mode, and in the control runs it had."""
    redirects = observed.contract.redirects
    if not redirects:
        raise SkippedError("the contract names nothing in a workspace that redirects the engine")
    visited = [turn for turn in observed.turns.values() if turn.case == "workspace" and "control-" not in turn.name]
    check_effects(visited, redirects)
    steps = [(mode, name) for mode in MODES for name in groups(redirects)]
    turns = []
    for mode, name in steps:
        for turn in (observed.turn(f"workspace/{mode}-{name}-{step}") for step in ("first", "again")):
            fail_if(not turn.offline and not went_well(turn), how_it_ended(turn), turn)
            turns.append(turn)
    controls = [observed.turn(f"workspace/{control_of(redirect)}") for redirect in redirects]
    took = [redirect.name in (turn.effects or ()) for redirect, turn in zip(redirects, controls, strict=True)]
    return _shown("nothing was changed by", redirects, took, (*turns, *controls))


@check("prompt.reads-no-file", "file-marks", blames=RESUMABLE)
def reads_no_file(observed: Observations) -> Finding:
    """No request carried the content of the file, and in the control run one did if the contract refuses a mark."""
    known = {turn.nonce for turn in observed.turns.values() if turn.case == "file-marks"}
    first, again = (observed.turns.get(f"file-marks/{step}") for step in ("first", "again"))
    for turn in filter(None, (first, again)):
        read = any({*request.nonces} - known for request in turn.watched)
        fail_if(read, "a prompt that the contract accepts made it send the file to the model", turn)
    turns = []
    for turn in (observed.turn(f"file-marks/{step}") for step in ("first", "again")):
        fail_if(not turn.sent(), f"the prompt was not sent to the model ({how_it_ended(turn)})", turn)
        turns.append(turn)
    if not observed.contract.file_marks:
        return passed("it reads no file that a prompt names", *turns)
    control = observed.turn("file-marks/control")
    if not any({*request.nonces} - known for request in control.watched):
        return passed("it reads no file that a prompt names; unproven: the marks that the contract refuses", *turns)
    return passed("refused: the marks with which it sends a file to the model", *turns, control)


def _under_asked_model(observed: Observations, *, made: bool) -> str:
    """Say whether the same holds under the model that turns ask for, in which the calls were made or not."""
    again, auto = map(observed.turns.get, (ASKED[1], "asked-model/auto"))
    acted = (auto is not None and auto.acted) or (again is not None and again.written)
    return f"; under {observed.contract.hermetic.model} {'too' if acted and made else 'unproven'}"


def _made(turn: Turn, tools: Collection[ToolUse]) -> bool:
    """Return whether the model called each of the tools in a turn."""
    made = [request.reply for request in turn.watched if request.is_call]
    return len(made) >= len(tools) and {f"tool_call {tool.name}" for tool in tools} <= {*made}


def calling(turn: Turn) -> Turn:
    """Return a turn whose model made a call; NotObservedError if it could not."""
    if not turn.called:
        raise NotObservedError(f"in {turn.name} the model was not asked, so it could call nothing", by_engine=True)
    return turn


def check_machine(message: str, contract: EngineContract) -> None:
    """Raise NotObservedError if the engine reports that its sandbox lacks something of the machine."""
    for need in contract.hermetic.needs:
        if re.search(need.pattern, message):
            what = f"this machine lacks what the engine's sandbox needs, {need.what}: {message}"
            raise NotObservedError(what, Reason.MACHINE)


def check_effects(turns: Iterable[Turn], redirects: Sequence[Redirect]) -> None:
    """Check that nothing in a workspace had an effect in these turns."""
    kinds = {redirect.name: redirect.kind for redirect in redirects}
    for turn in turns:
        for name in turn.effects or ():
            fail_if(name, f"a file of the workspace had an effect: {name}", turn, symptom=kinds[name])


def effect_of(call: str) -> str:
    """Return the symptom of a call that took effect."""
    return _EFFECTS.get(call, _OWN_TOOL)


def _named(step: str, settings: Sequence[ApprovalSetting]) -> str:
    """Return the settings that are in force in a step."""
    names = next(entries for name, entries in groups(settings).items() if step.startswith(f"{name}-"))
    return ", ".join(setting.name for setting in names)


def _shown(
    what: str, entries: Sequence[ApprovalSetting] | Sequence[Redirect], took: Sequence[bool], turns: Sequence[Turn]
) -> Finding:
    """Return a pass that names what the control runs proved; NotObservedError if they proved nothing."""
    names = [entry.name for entry in entries]
    proven, unproven = ([name for name, did in zip(names, took, strict=True) if did is ran] for ran in (True, False))
    if not proven:
        raise NotObservedError(f"no control run showed an effect of {', '.join(unproven)}", Reason.CONTRACT)
    detail = f"{what} {', '.join(proven)}, which has an effect where nothing guards it"
    return passed(detail + (f"; unproven: {', '.join(unproven)}" if unproven else ""), *turns)
