"""Checks of the whole loop through the reference server: what its API answers, and what the model was sent."""

import json
from typing import Any

from turngate.argv.auto_flags import auto_flags_in
from turngate.contract.verdict import Finding
from turngate_probes.clauses.prompt import acts_unasked
from turngate_probes.clauses.registry import check, failed, passed
from turngate_probes.harness.cases import ANSWER, QUESTION
from turngate_probes.harness.observations import Call, NotSeenError, Observations, Turn
from turngate_probes.server_level.cases import HANGS, RACERS, REFUSED, REPEATS, SCHEMA

ACCEPTED, CONFLICT = 202, 409
ASKED = json.loads(QUESTION)["interaction"]
FINAL_DATA = json.loads(ANSWER)["final_data"]


@check("server.waits", "loop")
def waits(seen: Observations) -> Finding:
    """The run waits, resumable and with the engine's session id, and its question is the one that the model sent."""
    asked = seen.call("loop/asked")
    run = asked.document
    if run.get("state") != "waiting_user":
        return failed(f"after the question the run is {standing(asked)}", asked, *_turns(seen, "loop"))
    profile, session = run.get("interactive_profile") or {}, run.get("engine_session_handle") or {}
    if profile.get("kind") != "resumable":
        return failed(f"it waits as {profile.get('kind')}: {profile.get('reason')}", asked)
    if not session.get("handle_value"):
        return failed("it waits without the engine's session id", asked)
    question = seen.call("loop/question")
    pending = question.document.get("pending") or {}
    if wrong := [key for key, value in ASKED.items() if pending.get(key) != value]:
        return failed(f"the question came through with another {', '.join(wrong)}", question)
    return passed(f"waits with the question as it was sent, session {session['handle_value']}", asked, question)


@check("server.survives-kill", "loop")
def survives_kill(seen: Observations) -> Finding:
    """After SIGKILL and a new start the run waits with the same question and session id, and takes the reply."""
    before, after = seen.call("loop/asked"), seen.call("loop/restarted")
    if after.document.get("state") != "waiting_user":
        return failed(f"after the restart the run is {standing(after)}", before, after)
    question, again = seen.call("loop/question"), seen.call("loop/question-again")
    if question.answer != again.answer:
        return failed("after the restart it asks something else", question, again)
    if before.document["engine_session_handle"] != after.document.get("engine_session_handle"):
        return failed("after the restart it has another session id", before, after)
    reply = seen.call("loop/reply")
    if reply.status != ACCEPTED:
        return failed(f"after the restart it takes no reply: {reply.said()}", after, reply)
    return passed("the same question and session id, and the reply was taken", again, after, reply)


@check("server.context-carried", "loop", blames=("server.final-data",))
def context_carried(seen: Observations) -> Finding:
    """One request after the reply held the nonce of the first turn and that of the reply, under the same session id."""
    first, turn = seen.turn("loop/turn-1"), seen.turn("loop/turn-2")
    if not turn.carries(first):
        ended = seen.call("loop/ended")
        return failed(f"no request holds {first.nonce} beside the reply; the run is {standing(ended)}", turn, ended)
    if turn.session != first.session:
        return failed(f"the first turn's session is {first.session}, the next one's {turn.session}", first, turn)
    return passed(f"{first.nonce} was sent again with the reply", first, turn)


@check("server.final-data", "loop")
def final_data(seen: Observations) -> Finding:
    """The run succeeded with what the model sent, valid against its output schema, in two starts of the engine."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - slow to import, and no other level needs it

    ended = seen.call("loop/ended")
    if ended.document.get("state") != "succeeded":
        return failed(f"the run is {standing(ended)}", ended, *_turns(seen, "loop"))
    data = ended.document.get("final_data")
    if data != FINAL_DATA or not Draft202012Validator(SCHEMA).is_valid(data):
        return failed(f"the final data is {json.dumps(data)[:200]}", ended)
    if miscounted := _miscounted(seen, "loop", 2):
        return failed(miscounted, ended, *_turns(seen, "loop"))
    return passed(f"succeeded with {json.dumps(data)}", ended)


@check("server.no-auto-flags", "loop", "one-reply", blames=("server.final-data",))
def no_auto_flags(seen: Observations) -> Finding:
    """No turn was started with an auto-approve flag, by the server's word, by its argv, or by what requests show."""
    turns = [*_turns(seen, "loop"), *_turns(seen, "one-reply")]
    seen.turn("loop/turn-2")
    for turn in turns:
        if not turn.own_arguments:
            return failed("the server does not say what it ran", turn)
        if untrue := [word for word in turn.own_arguments if word not in turn.argv]:
            return failed(f"the server says that it passed {' '.join(untrue)}, and did not", turn)
        if flags := auto_flags_in(turn.own_arguments, seen.contract) or auto_flags_in(turn.argv[1:], seen.contract):
            return failed(f"an interactive turn was passed {', '.join(flags)}", turn)
        if shown := acts_unasked(turn, seen.contract):
            return failed(f"an interactive turn acts without asking: its request shows {shown}", turn)
    return passed(f"{len(turns)} interactive turns", *turns)


@check("server.dead-handle", "dead-handle")
def dead_handle(seen: Observations) -> Finding:
    """A run whose session is gone failed as such after the reply, whatever the engine did."""
    reply, ended = seen.call("dead-handle/reply"), seen.call("dead-handle/ended")
    if reply.status != ACCEPTED:
        return failed(f"the reply was not taken: {reply.said()}", reply)
    return failed_as("SESSION_RESUME_FAILED", ended, *_turns(seen, "dead-handle")[1:])


@check("server.missing-handle", "missing-handle", blames=("server.waits",))
def missing_handle(seen: Observations) -> Finding:
    """A turn that asked, and printed no session id, failed its run; it never waited."""
    turn, ended = seen.turn("missing-handle/turn-1"), seen.call("missing-handle/ended")
    if not turn.sent():
        raise NotSeenError(f"the prompt never reached the model; the run is {standing(ended)}", by_engine=True)
    if turn.session is not None:
        raise NotSeenError(f"the session id {turn.session} was not kept from the server")
    return failed_as("SESSION_RESUME_FAILED", ended, turn)


@check("server.engine-failure", "engine-failure", blames=("server.waits",))
def engine_failure(seen: Observations) -> Finding:
    """A model backend that refuses failed the run, as the engine's failure, or as a timeout where it never gives up."""
    turn, ended = seen.turn("engine-failure/turn-1"), seen.call("engine-failure/ended")
    if not any(request.reply == f"refuse {REFUSED}" for request in turn.sent()):
        raise NotSeenError(f"the model backend was not asked; the run is {standing(ended)}", by_engine=True)
    declared = {d.symptom for d in seen.contract.deviations if d.clause == "backend.failure-told"}
    return failed_as("TURN_TIMEOUT" if HANGS in declared else "ENGINE_FAILED", ended, turn)


@check("server.bad-envelope", "bad-envelope", blames=("server.waits",))
def bad_envelope(seen: Observations) -> Finding:
    """A question that asks nothing failed the run; it never waited."""
    turn, ended = seen.turn("bad-envelope/turn-1"), seen.call("bad-envelope/ended")
    if turn.reading.final_text is None:
        raise NotSeenError(f"the engine gave no answer; the run is {standing(ended)}", by_engine=True)
    return failed_as("ENVELOPE_INVALID", ended, turn)


@check("server.cancel", "cancel", blames=("server.waits",))
def cancel(seen: Observations) -> Finding:
    """A run that was canceled in the middle of its turn is canceled, and nothing of its engine runs."""
    asked, ended, turn = seen.call("cancel/cancel"), seen.call("cancel/ended"), seen.turn("cancel/turn-1")
    if asked.status != ACCEPTED:
        return failed(f"the cancel was not taken: {asked.said()}", asked)
    if ended.document.get("state") != "canceled":
        return failed(f"after the cancel the run is {standing(ended)}", asked, ended, turn)
    if turn.leftovers:
        left = ", ".join(" ".join(process.argv)[:120] or str(process.pid) for process in turn.leftovers)
        return failed(f"canceled, with this still running: {left}", ended, turn)
    return passed("canceled in the middle of the turn, and nothing runs", asked, ended)


@check("server.one-reply", "one-reply")
def one_reply(seen: Observations) -> Finding:
    """Of many replies at once one was taken, a repeated one was answered alike, and each began one turn."""
    raced = [seen.call(f"one-reply/reply-{i}") for i in range(1, RACERS + 1)]
    statuses = sorted(call.status for call in raced)
    if statuses != [ACCEPTED] + [CONFLICT] * (RACERS - 1):
        return failed(f"{RACERS} replies at once were answered {statuses}", *raced)
    repeated = [seen.call(f"one-reply/repeated-{i}") for i in range(1, REPEATS + 1)]
    if any((call.status, call.answer) != (ACCEPTED, repeated[0].answer) for call in repeated):
        return failed("a reply repeated with its key was answered otherwise", *repeated)
    ended, turns = seen.call("one-reply/ended"), _turns(seen, "one-reply")
    if ended.document.get("state") != "succeeded":
        return failed(f"the run is {standing(ended)}", ended, *turns)
    if miscounted := _miscounted(seen, "one-reply", 3):
        return failed(miscounted, ended, *turns)
    sent = {nonce for turn in turns for request in turn.watched for nonce in request.nonces}
    if strays := _said_in_vain(raced) & sent:
        return failed(f"a reply that was refused was sent to the model: {', '.join(strays)}", *turns)
    return passed(f"1 of {RACERS} was taken, {REPEATS} alike were answered alike, each began one turn", *turns)


def failed_as(code: str, ended: Call, *shown: Turn | Call) -> Finding:
    """Return whether a run has failed with this code."""
    error = ended.document.get("error") or {}
    if ended.document.get("state") != "failed" or error.get("code") != code:
        return failed(f"the run is {standing(ended)}, and should have failed as {code}", ended, *shown)
    return passed(f"{code}: {error.get('detail')}", ended, *shown)


def standing(call: Call) -> str:
    """Describe the state of a run, and why it has failed."""
    error: dict[str, Any] = call.document.get("error") or {}
    return " ".join(str(word) for word in (call.document.get("state"), error.get("code"), error.get("detail")) if word)


def _turns(seen: Observations, case: str) -> list[Turn]:
    return [turn for name, turn in seen.turns.items() if name.startswith(f"{case}/")]


def _miscounted(seen: Observations, case: str, wanted: int) -> str | None:
    """Return how often the engine was started, unless it was as often as the server says and as it should."""
    started, told = len(_turns(seen, case)), len(seen.call(f"{case}/ended-turns").document.get("turns", ()))
    return None if started == told == wanted else f"the engine was started {started} times, for {told} turns"


def _said_in_vain(raced: list[Call]) -> set[str]:
    """Return the nonces of the replies that were refused."""
    return {call.sent["response"].rpartition(" ")[2] for call in raced if call.status == CONFLICT}
