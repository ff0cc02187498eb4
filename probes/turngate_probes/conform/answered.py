"""What the calls of a run say about its scenario, apart from the rules: nothing, too little, or enough to be judged."""

import re
from collections.abc import Iterable
from contextlib import suppress

from turngate import EngineContract
from turngate_probes.conform.calls import EngineCall
from turngate_probes.conform.catalogue import MOST_TURNS, in_process, needs_records, obstacle
from turngate_probes.conform.conform_report import ScenarioResult
from turngate_probes.conform.judge import Evidence, in_last_turn, last_words
from turngate_probes.conform.run import MAX_VARIABLE, variable_of
from turngate_probes.simulate.arguments import UsageProblem, in_chosen_output, in_plain_text
from turngate_probes.simulate.sticky.process_start import read as read_start

NO_CALL = "COMMAND never started the engine's executable; if your SDK brings its own, point it to ${variable}"
NO_TURN = "COMMAND only asked the engine about itself, and started no turn"
ONE_PROCESS = "COMMAND started a process for several turns, in which the engine can't play this scenario"
NO_THIRD_TURN = "COMMAND did not send TURNGATE_REPLY_2"
NO_CANCEL = "COMMAND did not cancel the turn after TURNGATE_CANCEL_AFTER_SEC"
OTHER_OUTPUT = "COMMAND asks for an output that the contract of the engine doesn't describe"
FORKS = "COMMAND has each turn go on in a new session, so every id is new"
NO_FILE = "a prompt of 200 KB is only in TURNGATE_PROMPT_FILE; read it there"
REPLIES_ANYWAY = "COMMAND replies to an answer, too, so nothing shows whether it keeps a question"
STILL_READ = "call {number}: COMMAND still read what the engine printed when its time was over: the machine is too slow"
TOO_LONG = "the engine was never started with a long prompt, but it was with a short one"
LONG_ARGUMENT = "; an argument holds at most 128 KB on Linux, so pass the prompt on standard input"


def unanswered(evidence: Evidence, contract: EngineContract) -> tuple[ScenarioResult, str] | None:
    """Return why a run says nothing about its scenario; None: it says something."""
    turns = turns_of(evidence)
    if reported := unread(evidence.calls) or ("" if turns else _not_started(evidence, contract)):
        return ScenarioResult.UNANSWERED, reported
    in_turns = [call for call in turns if call.started.kind == "turn"]
    if needs_records(evidence.scenario) and any(in_plain_text(contract, call.started.argv) for call in in_turns):
        return ScenarioResult.SKIPPED, OTHER_OUTPUT
    chosen = (in_chosen_output(contract, call.started.argv) for call in in_turns)
    if why := next(filter(None, (obstacle(evidence.scenario, one) for one in chosen)), None):
        return ScenarioResult.SKIPPED, f"in the output that COMMAND asks for, {why}"
    kept = any(call.started.kind == "process" for call in turns)  # its client ends it as it likes
    succeeded = all(call.ended is not None and call.ended.exit_code == 0 for call in turns)
    good = not any(ran.exit_code for ran in evidence.ran) if kept else succeeded
    refused = evidence.scenario.expect == "either" and any(ran.exit_code for ran in evidence.ran)
    third = any(ran.conversation.prompts[-1] in (call.text or "") for ran in evidence.ran for call in turns)
    fewer = (kept or len(turns) == MOST_TURNS - 1) and not third  # two processes can have more turns than two
    if "third_turn" in evidence.scenario.needs and good and not refused and fewer:
        return ScenarioResult.SKIPPED, NO_THIRD_TURN
    if call := still_read(evidence):
        return ScenarioResult.UNANSWERED, STILL_READ.format(number=call.number)
    if why := _not_shown(evidence):
        return ScenarioResult.SKIPPED, why
    processes = (call for call in turns if call.started.kind == "process")
    if not all(in_process(evidence.scenario, _transport(call, contract)) for call in processes):
        return ScenarioResult.SKIPPED, ONE_PROCESS
    return None


def _not_shown(evidence: Evidence) -> str:
    """Return why what COMMAND did can't show what its scenario is about; empty: it can."""
    is_fresh = any(play.session == "fresh" for play in evidence.scenario.plays)
    if is_fresh and any(call.started.forks for call in turns_of(evidence)):
        return FORKS
    is_late = all(ran.seconds >= evidence.scenario.deadline for ran in evidence.ran)
    return NO_CANCEL if evidence.scenario.cancel_after and is_late else ""


def _transport(call: EngineCall, contract: EngineContract) -> str:
    """Return what a process for several turns speaks: that of the contract, or another one that the engine has."""
    with suppress(UsageProblem):
        if start := read_start(contract, call.started.argv):
            return start.transport
    return contract.sticky.transport


def _not_started(evidence: Evidence, contract: EngineContract) -> str:
    """Return why COMMAND started no engine: how it failed leads, if it did."""
    if has_not_read(evidence):
        return NO_FILE + _failed(evidence)
    failed = next((f"COMMAND failed: {last_words(ran)}. " for ran in evidence.ran if ran.exit_code), "")
    return failed + (NO_TURN if evidence.calls else NO_CALL).format(variable=variable_of(contract.engine))


def too_long(evidence: Evidence) -> str:
    """Return what is wrong if only a long prompt starts no engine: it was an argument, or COMMAND refuses it."""
    printed = (text for ran in evidence.ran for text in (ran.stdout, ran.stderr))
    argument = any(re.search(r"E2BIG|Argument list too long", text) for text in printed)
    return f"{TOO_LONG}{LONG_ARGUMENT if argument else ''}{_failed(evidence)}"


def turns_of(evidence: Evidence) -> list[EngineCall]:
    """Return the calls that are about the conversation."""
    return [call for call in evidence.calls if call.started.kind not in ("query", "unknown")]


def unread(calls: Iterable[EngineCall]) -> str:
    """Return what no rule can judge, of the first such call; empty: there is none."""
    unknown = (f"call {call.number}: {call.started.problem}" for call in calls if call.started.kind == "unknown")
    return next(unknown, "")


def is_long(evidence: Evidence) -> bool:
    """Whether the prompt fits neither an argument nor a variable."""
    return len(evidence.ran[0].conversation.prompts[0]) > MAX_VARIABLE


def has_not_read(evidence: Evidence) -> bool:
    """Whether COMMAND looks for a long prompt in the variable, which is not there."""
    return is_long(evidence) and any(re.search(r"TURNGATE_PROMPT(?!_FILE)", last_words(ran)) for ran in evidence.ran)


def has_replied(evidence: Evidence) -> bool:
    """Whether COMMAND sent the reply."""
    return any(ran.conversation.prompts[1] in (call.text or "") for ran in evidence.ran for call in evidence.calls)


def came_too_soon(evidence: Evidence) -> bool:
    """Whether a slow machine used up the deadline before the turn that misbehaves."""
    wanted = min((play.turn or 1 for play in evidence.scenario.plays), default=1)
    turns = len(turns_of(evidence))
    # a process for several turns is one call
    reached = any(
        ran.conversation.prompts[wanted - 1] in (call.text or "") for ran in evidence.ran for call in evidence.calls
    )
    return turns < wanted and not reached and any(ran.seconds >= evidence.scenario.deadline for ran in evidence.ran)


def still_read(evidence: Evidence) -> EngineCall | None:
    """Return the call whose flood COMMAND read when the deadline passed.

    If nobody reads, a pipe or a socket takes far less than half.
    """
    size = max((play.stderr_bytes for play in evidence.scenario.plays), default=0)
    if not any(ran.exit_code != 0 and ran.seconds >= evidence.scenario.deadline for ran in evidence.ran):
        return None
    return next((call for call in evidence.calls if call.ended is None and size / 2 < call.flooded < size), None)


def may_have_canceled(evidence: Evidence) -> bool:
    """Whether COMMAND took as long as a deadline, but its last turn did not: a slow machine hides a cancel."""
    scenario, turns = evidence.scenario, turns_of(evidence)
    if not scenario.cancel_after or not turns:
        return False
    last = max(call.started.at for call in turns)
    return all(ran.seconds >= scenario.deadline > ran.ended - last for ran in evidence.ran)


def ended_early(evidence: Evidence) -> bool:
    """Whether COMMAND was ended before it had its deadline and all of its grace in the engine's last turn."""
    enough = evidence.scenario.deadline + evidence.scenario.grace
    return any(ran.exit_code is None and in_last_turn(evidence, ran) < enough for ran in evidence.ran)


def _failed(evidence: Evidence) -> str:
    """Return how COMMAND failed, in brackets; empty: it did not."""
    return next((f" ({last_words(ran)})" for ran in evidence.ran if ran.exit_code), "")
