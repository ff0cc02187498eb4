"""Checks of a sticky process, which the reference server keeps alive between the turns of a run."""

import json
from signal import SIGKILL
from typing import Any

from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.file_slot import as_in_contract
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import EXCERPT, SkippedError, check, fail_if, passed
from turngate_probes.clauses.server import ACCEPTED, FINAL_DATA, check_state, failed_as, standing
from turngate_probes.clauses.settings import calling, check_effects, check_machine, effect_of
from turngate_probes.harness import settings_cases
from turngate_probes.harness.observations import NotObservedError, Observations
from turngate_probes.harness.server_calls import ALLOWED, DECLINED, UNSAFE
from turngate_probes.journal.tool_access import reported

UNPROCESSABLE = 422
_KIND, _TEXT = "sessionUpdate", "agent_message_chunk"
_LASTING = ("always", "session", "forever", "never")


@check("sticky.one-process", "sticky")
def one_process(observed: Observations) -> Finding:
    """One start of the engine ran three turns: it was alive after each but the last, and nothing was left after it."""
    _must_be_sticky(observed)
    asked, first = observed.call("sticky/asked"), observed.turn("sticky/turn-1")
    kind = (asked.document.get("interactive_profile") or {}).get("kind")
    fail_if(kind != "sticky_process", f"it waits as {kind}", asked)
    flags = auto_flags_in(as_in_contract(first.argv[1:], observed.contract), observed.contract)
    fail_if(flags, f"an interactive process was run with {', '.join(flags)}", first)
    further = [turn for name, turn in observed.turns.items() if name.startswith("sticky/start-")]
    fail_if(further, f"the engine was started {len(further) + 1} times", first, *further)
    second = observed.turn("sticky/turn-2")
    pids = [{left.pid for left in turn.leftovers} for turn in (first, second)]
    another = f"running after the first turn: {_listed(pids[0])}; after the second: {_listed(pids[1])}"
    fail_if(not pids[0] & pids[1], another, first, second)
    turns, ended = (first, second, observed.turn("sticky/turn-3")), observed.call("sticky/ended")
    data = ended.document.get("final_data")
    wrong = f"the run is {standing(ended)}, with {json.dumps(data)[:200]}"
    fail_if(ended.state != "succeeded" or data != FINAL_DATA, wrong, ended, *turns)
    left = {process.pid for process in turns[2].leftovers}
    fail_if(left, f"the run has ended, but these processes still run: {_listed(left)}", ended, turns[2])
    return passed(f"one start, process {_listed(pids[0] & pids[1])} in all three turns", asked, ended, *turns)


@check("sticky.context-carried", "sticky")
def context_carried(observed: Observations) -> Finding:
    """One request of the third turn contained the first turn's nonce and its own."""
    first, third = observed.turn("sticky/turn-1"), observed.turn("sticky/turn-3")
    fail_if(not third.carries(first), f"no request of the third turn contains {first.nonce}", first, third)
    return passed(f"{first.nonce} was sent again in the third turn", first, third)


@check("sticky.framing", "sticky", blames=("sticky.one-process",))
def framing(observed: Observations) -> Finding:
    """Every line on standard output was a JSON object."""
    _must_be_sticky(observed)
    observed.turn("sticky/turn-1")
    turns = [turn for name, turn in observed.turns.items() if name.startswith("sticky/turn-")]
    if not turns[-1].stdout.strip():
        raise NotObservedError("the process printed nothing, so that nothing is shown", by_engine=True)
    for line in turns[-1].stdout.splitlines():
        evidence = line[:EXCERPT].decode("utf-8", "backslashreplace")
        fail_if(line.strip() and _message(line) is None, f"a line is not a message: {evidence!r}", turns[-1])
    return passed(f"{len(turns[-1].stdout.splitlines())} messages", *turns)


@check("sticky.text-before-end", "sticky", blames=("sticky.one-process",))
def text_before_end(observed: Observations) -> Finding:
    """No text followed the response to a prompt, up to the moment at which the server took the turn for ended."""
    _must_be_sticky(observed)
    if observed.contract.sticky.transport != "acp":
        raise SkippedError("in its protocol, the end of a turn is the last message of the turn")
    turns = [observed.turn(f"sticky/turn-{number}") for number in (1, 2, 3)]
    for turn in turns:
        told = [message for line in turn.stdout.splitlines() if (message := _message(line)) is not None]
        ends = [number for number, message in enumerate(told) if "stopReason" in _part(message, "result")]
        if not ends:
            raise NotObservedError("no response ended the turn", by_engine=True)
        late = [message for message in told[ends[-1] + 1 :] if _part(message, "params", "update").get(_KIND) == _TEXT]
        words = f"text follows the response that ends the turn: {json.dumps(late)[:EXCERPT]}"
        fail_if(late, words, turn, symptom="late")
    return passed("no text came after the end of its turn", *turns)


@check("sticky.ends-when-told", "sticky", blames=("sticky.one-process",))
def ends_when_told(observed: Observations) -> Finding:
    """After the run, its process ended at the end of its input or on SIGTERM, and was not killed."""
    _must_be_sticky(observed)
    turn = observed.turn("sticky/turn-3")
    fail_if(turn.exit_code == -SIGKILL, "the process had to be killed after the run", turn, symptom="killed")
    if turn.exit_code is None:
        raise NotObservedError("the server doesn't report how the process ended")
    return passed(f"it exited with {turn.exit_code}", turn)


@check("sticky.permission-asked", "sticky", blames=("sticky.one-process",))
def permission_asked(observed: Observations) -> Finding:
    """The tool call became a question with one-time options; other answers were rejected, and the run continued."""
    _must_be_sticky(observed)
    if observed.contract.hermetic.tool_call is None:
        raise SkippedError("its contract names no tool for the model to call")
    acting, asked = observed.call("sticky/acting"), observed.call("sticky/permission")
    pending = asked.document.get("pending") or {}
    kind, options = pending.get("kind"), [str(option) for option in pending.get("options", ())]
    called = observed.turns.get("sticky/turn-2")
    if called and not any(request.reply.startswith("tool_call ") for request in called.watched):
        raise NotObservedError(
            "the engine sent no request that the model could answer with a tool call", by_engine=True
        )
    fail_if(kind != "risk_ack", f"the tool was called, but the question has kind {kind}", acting, asked)
    lasting = [option for option in options if any(word in option.lower() for word in _LASTING)]
    fail_if(lasting, f"it offers more than one-time approval: {', '.join(lasting)}", asked)
    fail_if(len(options) != len(set(options)) or not options, f"its options are {options}", asked)
    wrong, what = observed.call("sticky/no-option"), "a reply that is not one of its options"
    fail_if(wrong.status != UNPROCESSABLE, f"{what} returned {wrong.summary()}", asked, wrong)
    unmoved = observed.call("sticky/unmoved")
    check_state("waiting_user", unmoved, wrong, unmoved, when=f"after {what}, ")
    declined = observed.call("sticky/declined")
    fail_if(
        declined.status != ACCEPTED, f"its option {options[-1]} was rejected: {declined.summary()}", asked, declined
    )
    again = observed.call("sticky/asked-again")
    before, turn = acting.document.get("turn_index"), again.document.get("turn_index")
    fail_if(turn != before, f"the decision started turn {turn}", acting, again)
    return passed(
        f"asked with the options {' and '.join(options)}, and continued when declined", asked, wrong, declined, again
    )


@check("sticky.permission-allowed", "sticky-allowed", blames=("sticky.one-process",))
def permission_allowed(observed: Observations) -> Finding:
    """After each allowed request the file was there, after each declined one it was not."""
    _must_be_sticky(observed)
    calls = settings_cases.calls(observed.contract)
    if not calls:
        raise SkippedError("its contract names no tool for the model to call")
    wanted = {f"{decision}-{call}": call for decision in (ALLOWED, DECLINED) for call in calls}
    for step, call in wanted.items():
        turn, answer = observed.turns.get(f"sticky-allowed/{step}"), observed.calls.get(f"sticky-allowed/{step}-answer")
        if turn is None:
            continue
        tool, allowed = calls[call].name, step.startswith(ALLOWED)
        unasked = f"{tool} took effect without a question"
        fail_if(turn.acted and answer is None, unasked, turn, symptom="acts-anyway")
        ineffective, message = allowed and not turn.acted, reported(turn.watched)
        if ineffective and message:
            check_machine(message, observed.contract)
        without_effect = f"{tool} was allowed, but has no effect" + (f": {message}" if message else "")
        fail_if(ineffective, without_effect, turn, symptom="no-effect")
        fail_if(not allowed and turn.acted, f"{tool} was declined, but took effect", turn, symptom="acts-anyway")
    turns = [observed.turn(f"sticky-allowed/{step}") for step in wanted]
    for step in wanted:
        observed.call(f"sticky-allowed/{step}-answer")
    return passed(f"{' and '.join(tool.name for tool in calls.values())} took effect only if allowed", *turns)


@check("sticky.settings-cannot-widen", "sticky-own-settings", blames=("sticky.one-process",))
def settings_cannot_widen(observed: Observations) -> Finding:
    """Nothing took effect before the user was asked, or after the user declined; or the server takes no such run."""
    _must_be_sticky(observed)
    settings = observed.contract.approval_settings
    calls = settings_cases.calls(observed.contract, settings)
    if not settings or not calls:
        raise SkippedError("its contract names no setting of the user that widens approval, or no tool")
    groups, first_call = settings_cases.groups(settings), next(iter(calls))
    created = {name: observed.calls.get(f"sticky-own-settings/{name}-{first_call}-create") for name in groups}
    rejected = {name: call for name, call in created.items() if call and call.document.get("code") == UNSAFE}
    wanted = {
        f"{name}-{call}": call
        for name, together in groups.items()
        if name not in rejected
        for call in settings_cases.calls(observed.contract, together)
    }
    for step, call in wanted.items():
        turn = observed.turns.get(f"sticky-own-settings/{step}")
        if turn is not None:
            fail_if(turn.acted, f"{calls[call].name} took effect unasked", turn, symptom=effect_of(call))
    turns = [calling(observed.turn(f"sticky-own-settings/{step}")) for step in wanted]
    details = (
        ("nothing took effect with", [name for name in groups if name not in rejected]),
        ("the server takes no run with", rejected),
    )
    parts = [f"{what} {', '.join(s.name for n in names for s in groups[n])}" for what, names in details if names]
    return passed("; ".join(parts), *turns, *rejected.values())


@check("sticky.workspace-cannot-redirect", "sticky-workspace", blames=("sticky.one-process",))
def workspace_cannot_redirect(observed: Observations) -> Finding:
    """Nothing in the workspace had an effect on a sticky process."""
    _must_be_sticky(observed)
    redirects = observed.contract.redirects
    if not redirects:
        raise SkippedError("its contract names nothing in a workspace that redirects the engine")
    check_effects((turn for turn in observed.turns.values() if turn.case == "sticky-workspace"), redirects)
    turns = []
    for name, entries in settings_cases.groups(redirects).items():
        steps = ("first",) if settings_cases.unset(entries) else ("first", "again")
        turns += [observed.turn(f"sticky-workspace/{name}-{step}") for step in steps]
    return passed(f"nothing was changed by {', '.join(redirect.name for redirect in redirects)}", *turns)


@check("sticky.wait-timeout", "sticky-ends", blames=("sticky.process-lost",))
def wait_timeout(observed: Observations) -> Finding:
    """Without a reply, the run failed with that reason, and its process was gone."""
    return _lost(observed, "late", "INTERACTION_WAIT_TIMEOUT")


@check("sticky.process-lost", "sticky-ends")
def process_lost(observed: Observations) -> Finding:
    """After its process was killed, the run failed with that reason by itself, and nothing was left."""
    lost = _lost(observed, "killed", "INTERACTION_PROCESS_LOST")
    turn = observed.turn("sticky-ends/killed")
    return passed(f"{lost.detail}, {turn.seconds:.1f} s after the kill", turn)


@check("sticky.restart", "sticky-ends", blames=("sticky.process-lost", "sticky.wait-timeout"))
def restart(observed: Observations) -> Finding:
    """After the server was killed and restarted, the run failed with that reason, and its process was gone."""
    return _lost(observed, "orphan", "INTERACTION_PROCESS_LOST")


def _lost(observed: Observations, step: str, code: str) -> Finding:
    _must_be_sticky(observed)
    asked, ended = observed.call(f"sticky-ends/{step}-asked"), observed.call(f"sticky-ends/{step}-ended")
    turn = observed.turn(f"sticky-ends/{step}")
    lost = failed_as(code, ended, asked, turn)
    left = _listed({process.pid for process in turn.leftovers})
    fail_if(turn.leftovers, f"the run has failed as {code}, but these processes still run: {left}", ended, turn)
    return lost


def _message(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _part(message: dict[str, Any], *path: str) -> dict[str, Any]:
    """Return the object at a path in a message; empty if there is none."""
    for name in path:
        inner = message.get(name)
        message = inner if isinstance(inner, dict) else {}
    return message


def _must_be_sticky(observed: Observations) -> None:
    if observed.contract.sticky.transport == "none":
        raise SkippedError("its contract has no sticky transport")


def _listed(pids: set[int]) -> str:
    return ", ".join(map(str, sorted(pids))) or "nothing"
