"""Checks of the whole loop through the reference server: its API responses, and the requests to the model."""

import json
from typing import Any

from turngate.argv.file_slot import as_in_contract
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import check, fail_if, passed, unmatched
from turngate_probes.clauses.process import left_running
from turngate_probes.clauses.prompt import check_asks
from turngate_probes.harness.driver import ANSWER, QUESTION
from turngate_probes.harness.observations import NotObservedError, Observations, ServerCall, Turn
from turngate_probes.harness.server_calls import HANGS, RACERS, REFUSED, REPEATS, SCHEMA

ACCEPTED, CONFLICT = 202, 409
ASKED = json.loads(QUESTION)["interaction"]
FINAL_DATA = json.loads(ANSWER)["final_data"]


@check("server.waits", "loop")
def waits(observed: Observations) -> Finding:
    """The run waits as resumable, with the engine's session id and the model's question."""
    asked = observed.call("loop/asked")
    check_state("waiting_user", asked, asked, *_turns(observed, "loop"), when="after the question, ")
    run = asked.document
    profile, session = run.get("interactive_profile") or {}, run.get("engine_session_handle") or {}
    fail_if(profile.get("kind") != "resumable", f"it waits as {profile.get('kind')}: {profile.get('reason')}", asked)
    fail_if(not session.get("handle_value"), "it waits without the engine's session id", asked)
    question = observed.call("loop/question")
    pending = question.document.get("pending") or {}
    wrong = [key for key, value in ASKED.items() if pending.get(key) != value]
    fail_if(wrong, f"the question differs from the model's in {', '.join(wrong)}", question)
    return passed(f"waits with the model's question, session {session['handle_value']}", asked, question)


@check("server.survives-kill", "loop")
def survives_kill(observed: Observations) -> Finding:
    """After SIGKILL and a restart the run waits with the same question and session id, and accepts the reply."""
    before, after = observed.call("loop/asked"), observed.call("loop/restarted")
    check_state("waiting_user", after, before, after, when="after the restart, ")
    sessions = [call.document.get("engine_session_handle") for call in (before, after)]
    fail_if(sessions[0] != sessions[1], "after the restart, the session id differs", before, after)
    question, again = observed.call("loop/question"), observed.call("loop/question-again")
    fail_if(question.answer != again.answer, "after the restart, the question differs", question, again)
    reply = observed.call("loop/reply")
    fail_if(reply.status != ACCEPTED, f"after the restart, the reply was rejected: {reply.summary()}", after, reply)
    return passed("the same question and session id, and the reply was accepted", again, after, reply)


@check("server.context-carried", "loop", blames=("server.final-data",))
def context_carried(observed: Observations) -> Finding:
    """One request after the reply contained the nonces of the first turn and the reply, under the same session id."""
    first, turn = observed.turn("loop/turn-1"), observed.turn("loop/turn-2")
    ended = [call for name, call in observed.calls.items() if name == "loop/ended"]
    lost = f"no request contains {first.nonce} together with the reply"
    fail_if(not turn.carries(first), "; the run is ".join([lost, *map(standing, ended)]), turn, *ended)
    another = f"the first turn's session is {first.session}, but the next one's is {turn.session}"
    fail_if(turn.session != first.session, another, first, turn)
    return passed(f"{first.nonce} was sent again with the reply", first, turn)


@check("server.final-data", "loop")
def final_data(observed: Observations) -> Finding:
    """The run succeeded with the model's data, valid against its output schema, in two starts of the engine."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow to import, and no other level needs it

    ended = observed.call("loop/ended")
    check_state("succeeded", ended, ended, *_turns(observed, "loop"))
    data = ended.document.get("final_data")
    is_right = data == FINAL_DATA and Draft202012Validator(SCHEMA).is_valid(data)
    fail_if(not is_right, f"the final data is {json.dumps(data)[:200]}", ended)
    _check_starts(observed, "loop", 2)
    return passed(f"succeeded with {json.dumps(data)}", ended)


@check("server.no-auto-flags", "loop", "one-reply", blames=("server.final-data",))
def no_auto_flags(observed: Observations) -> Finding:
    """No turn was started with an auto-approve flag, according to the server, the argv and the requests."""
    turns = [*_turns(observed, "loop"), *_turns(observed, "one-reply")]
    for turn in turns:
        fail_if(not turn.own_arguments, "the server doesn't report what it ran", turn)
        passed_ones = as_in_contract(turn.argv, observed.contract)
        untrue = [word for word in as_in_contract(turn.own_arguments, observed.contract) if word not in passed_ones]
        fail_if(untrue, f"the server reports that it passed {' '.join(untrue)}, but it did not", turn)
        check_asks(turn, turn.own_arguments, observed.contract)
        check_asks(turn, turn.argv[1:], observed.contract)
    observed.turn("loop/turn-2")
    return passed(f"{len(turns)} interactive turns", *turns)


@check("server.dead-handle", "dead-handle")
def dead_handle(observed: Observations) -> Finding:
    """A run with a lost session failed with that reason after the reply, whatever the engine did."""
    reply = observed.call("dead-handle/reply")
    fail_if(reply.status != ACCEPTED, f"the reply was rejected: {reply.summary()}", reply)
    return failed_as("SESSION_RESUME_FAILED", observed.call("dead-handle/ended"), *_turns(observed, "dead-handle")[1:])


@check("server.missing-handle", "missing-handle", blames=("server.waits",))
def missing_handle(observed: Observations) -> Finding:
    """A turn that asked a question without a session id failed its run; the run never waited."""
    turn, ended = observed.turn("missing-handle/turn-1"), observed.call("missing-handle/ended")
    if not turn.sent():
        raise NotObservedError(f"the prompt was not sent to the model; the run is {standing(ended)}", by_engine=True)
    if turn.session is not None:
        raise NotObservedError(f"the session id {turn.session} was not hidden from the server")
    return failed_as("SESSION_RESUME_FAILED", ended, turn)


@check("server.engine-failure", "engine-failure", blames=("server.waits",))
def engine_failure(observed: Observations) -> Finding:
    """When the model backend refused, the run failed: as an engine failure, or as a timeout if the engine hangs."""
    turn, ended = observed.turn("engine-failure/turn-1"), observed.call("engine-failure/ended")
    if not any(request.reply == f"refuse {REFUSED}" for request in turn.sent()):
        raise NotObservedError(f"the model backend received no request; the run is {standing(ended)}", by_engine=True)
    declared = {d.symptom for d in observed.contract.deviations if d.clause == "backend.failure-told"}
    return failed_as("TURN_TIMEOUT" if HANGS in declared else "ENGINE_FAILED", ended, turn)


@check("server.bad-envelope", "bad-envelope", blames=("server.waits",))
def bad_envelope(observed: Observations) -> Finding:
    """A question without a prompt failed the run; the run never waited."""
    turn, ended = observed.turn("bad-envelope/turn-1"), observed.call("bad-envelope/ended")
    if turn.reading.final_text is None:
        no_text = f"the engine returned no answer{unmatched(turn, 'final')}; the run is {standing(ended)}"
        raise NotObservedError(no_text, by_engine=True)
    return failed_as("ENVELOPE_INVALID", ended, turn)


@check("server.cancel", "cancel", blames=("server.waits",))
def cancel(observed: Observations) -> Finding:
    """A run that was canceled during a turn is canceled, long before its deadline, and no process of it is left."""
    asked = observed.call("cancel/cancel")
    fail_if(asked.status != ACCEPTED, f"the cancellation was rejected: {asked.summary()}", asked)
    ended, turn = observed.call("cancel/ended"), observed.turn("cancel/turn-1")
    check_state("canceled", ended, asked, ended, turn, when="after the cancellation, ")
    fail_if(turn.leftovers, f"canceled, but still running: {left_running(turn)}", ended, turn)
    return passed("canceled during the turn, and nothing is left running", asked, ended)


@check("server.one-reply", "one-reply")
def one_reply(observed: Observations) -> Finding:
    """One of many concurrent replies was accepted, repeated ones got the same response, and each started one turn."""
    raced = [observed.call(f"one-reply/reply-{i}") for i in range(1, RACERS + 1)]
    statuses = sorted(call.status for call in raced)
    one_taken = [ACCEPTED] + [CONFLICT] * (RACERS - 1)
    fail_if(statuses != one_taken, f"{RACERS} concurrent replies returned {statuses}", *raced)
    turns = _turns(observed, "one-reply")
    sent = {nonce for turn in turns for request in turn.watched for nonce in request.nonces}
    refused = {call.sent["response"].rpartition(" ")[2] for call in raced if call.status == CONFLICT}
    fail_if(refused & sent, f"a rejected reply was sent to the model: {', '.join(refused & sent)}", *turns)
    repeated = [observed.call(f"one-reply/repeated-{i}") for i in range(1, REPEATS + 1)]
    alike = all((call.status, call.answer) == (ACCEPTED, repeated[0].answer) for call in repeated)
    fail_if(not alike, "a reply repeated with its key got another response", *repeated)
    ended = observed.call("one-reply/ended")
    check_state("succeeded", ended, ended, *turns)
    _check_starts(observed, "one-reply", 3)
    return passed(
        f"1 of {RACERS} replies was accepted, {REPEATS} equal ones got the same response, each started one turn", *turns
    )


def check_state(state: str, call: ServerCall, *evidence: Turn | ServerCall, when: str = "") -> None:
    """Check that the call returned the run in this state."""
    fail_if(call.state != state, f"{when}the run is {standing(call)}", *evidence)


def failed_as(code: str, ended: ServerCall, *evidence: Turn | ServerCall) -> Finding:
    """Check that a run has failed with this code."""
    error = ended.document.get("error") or {}
    another = f"the run is {standing(ended)}, but should have failed as {code}"
    fail_if(ended.state != "failed" or error.get("code") != code, another, ended, *evidence)
    return passed(f"{code}: {error.get('detail')}", ended, *evidence)


def standing(call: ServerCall) -> str:
    """Describe the state of a run, and why it failed."""
    error: dict[str, Any] = call.document.get("error") or {}
    return " ".join(str(word) for word in (call.state, error.get("code"), error.get("detail")) if word)


def _turns(observed: Observations, case: str) -> list[Turn]:
    return [turn for turn in observed.turns.values() if turn.case == case]


def _check_starts(observed: Observations, case: str, wanted: int) -> None:
    """Check that the engine was started as often as the server reports, and as often as it should be."""
    ended, turns = observed.call(f"{case}/ended"), _turns(observed, case)
    listed = observed.calls.get(f"{case}/ended-turns")  # None: the server is another one, which need not list them
    reported = len(listed.document.get("turns", ())) if listed else wanted
    miscounted = f"the engine was started {len(turns)} times, for {reported} turns"
    fail_if(not len(turns) == reported == wanted, miscounted, ended, *turns)
