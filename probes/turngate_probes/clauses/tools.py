"""Checks of what becomes of a question that the agent asks by a tool, and of commands in the engine's own sandbox."""

import re

from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import QuestionCall
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import EXCERPT, SkippedError, check, fail_if, how_it_ended, passed
from turngate_probes.clauses.settings import check_machine
from turngate_probes.harness.observations import NotObservedError, Observations, Turn
from turngate_probes.harness.tool_cases import EXIT_CODE, OUTSIDE, question_mark, questions_offered, terms
from turngate_probes.journal.tool_access import reported

# the turn of each mode that shows which tools it offers
_SHOWING = {"interactive": "tool-call/first", "auto": "tool-call/auto"}


@check("question.is-told", "tool-call", blames=("turn.terminal-event",))
def question_is_told(observed: Observations) -> Finding:
    """In each mode no tool for questions was offered, or its question was refused or reached the caller.

    A tool that neither mode offered is unproven: the release may have it under another name.
    """
    calls = observed.contract.question_calls
    if not calls:
        raise SkippedError("the contract names no tool by which the agent asks its user")
    found, evidence, unproven = list[str](), list[Turn](), {call.tool for call in calls}
    for mode, name in _SHOWING.items():
        shown = observed.turn(name)
        if not any(request.tools for request in shown.watched):
            raise NotObservedError(f"{name} offered the model no tools at all", by_engine=True)
        offered = questions_offered(observed.contract, shown)
        turn = observed.turn(f"tool-call/{mode}-question") if offered else shown
        found += [f"{call.tool} in mode {mode}: {_became_of(call, turn, observed)}" for call in offered]
        found += [] if offered else [f"none is offered in mode {mode}"]
        evidence.append(turn)
        unproven -= {call.tool for call in offered}
    found += [f"unproven: {', '.join(sorted(unproven))}"] if unproven else []
    return passed("; ".join(found), *evidence)


def _became_of(call: QuestionCall, turn: Turn, observed: Observations) -> str:
    """Say how a question was told; the check fails if it wasn't."""
    made = [at for at, request in enumerate(turn.watched) if request.reply == f"tool_call {call.tool}"]
    if not made:
        what = f"in {turn.name} the model could not call {call.tool} ({how_it_ended(turn)})"
        raise NotObservedError(what, by_engine=True)
    fail_if(turn.hung, f"the turn hangs at a question by {call.tool} ({how_it_ended(turn)})", turn, symptom="hang")
    mark, contract = question_mark(turn.nonce, call).encode(), observed.contract
    read = {contract.handle.stream, contract.events.stream, contract.final.stream}
    if any(mark in printed for stream, printed in (("stdout", turn.stdout), ("stderr", turn.stderr)) if stream in read):
        return "its question reached the caller"
    answer = reported(turn.watched[made[0] :])
    dropped = f"the turn ended at a question by {call.tool}, and nobody was told of it ({how_it_ended(turn)})"
    fail_if(answer is None, dropped, turn, symptom="dropped")
    answer = str(answer)[:EXCERPT]
    refused = call.refused and re.search(call.refused, answer)
    what = f"a question by {call.tool} reached nobody, and the model was told: {answer}"
    fail_if(not refused, what, turn, symptom="silently-answered")
    return f"the model was told that nobody answers: {answer}"


@check("sandbox.command-runs", "sandbox", blames=("turn.terminal-event",))
def command_runs(observed: Observations) -> Finding:
    """In each sandbox, the model got one command's sum, and the exit code of another that could not write outside."""
    sandboxes = observed.contract.command_sandboxes
    tried = [own.name for own in sandboxes if own.call is not None]
    if not tried:
        reasons = [own.unsupported for own in sandboxes]
        raise SkippedError("; ".join(reasons) or "the contract names no sandbox of the engine's own for commands")
    turns = [_ran(observed.turn(f"sandbox/{name}"), observed) for name in tried]
    return passed(f"a command ran and a failing one was told as failed, in {', '.join(tried)}", *turns)


def _ran(turn: Turn, observed: Observations) -> Turn:
    """Check the commands of a turn, and return it."""
    calls = [at for at, request in enumerate(turn.watched) if request.is_call]
    fail_if(turn.hung and calls, f"the turn hangs at a command ({how_it_ended(turn)})", turn, symptom="hang")
    if len(calls) < 2:  # noqa: PLR2004 - one command fails, the other adds
        what = f"in {turn.name} the model made {len(calls)} of 2 calls ({how_it_ended(turn)})"
        raise NotObservedError(what, by_engine=True)
    failing, adding = (reported(turn.watched[at:]) or "" for at in calls[:2])
    check_machine(f"{failing} {adding}", observed.contract)
    lost = f"the output of a command did not reach the model, which was told: {adding[:EXCERPT]}"
    fail_if(not _is_in(adding, sum(terms(turn.step))), lost, turn, symptom="no-output")
    untold = f"a command failed with exit code {EXIT_CODE}, and the model was told: {failing[:EXCERPT]}"
    fail_if(not _is_in(failing, EXIT_CODE), untold, turn, symptom="failure-untold")
    if OUTSIDE in turn.written:
        what = f"in {turn.name} a command wrote outside the workspace, so that no sandbox was on"
        raise NotObservedError(what, Reason.CONTRACT)
    return turn


def _is_in(text: str, number: int) -> bool:
    """Return whether a text has a number, which is no part of a longer one, such as that of seconds."""
    return re.search(rf"(?<![\d.]){number}(?!\.?\d)", text) is not None
