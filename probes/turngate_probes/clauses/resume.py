"""Checks of resuming, based on the requests to the model backend, or on what a real model recalls."""

import re

from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import (
    EXCERPT,
    SkippedError,
    another_session,
    check,
    check_carried,
    fail_if,
    how_it_ended,
    passed,
    went_well,
)
from turngate_probes.clauses.prompt import arrived, times_in
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.cases import LONG_SESSION
from turngate_probes.harness.observations import NotObservedError, Observations, Turn


@check("resume.accepted", "main", blames=RESUMABLE)
def accepted(observed: Observations) -> Finding:
    """The resume ran a turn with the caller's options and model."""
    turn = observed.turn("main/again")
    fail_if(not went_well(turn), how_it_ended(turn), turn)
    if turn.requests is None:
        return passed("exit code 0", turn)
    fail_if(not turn.sent(), "exit code 0, but the prompt was not sent to the model", turn)
    first, again = map(_models, (observed.turn("main/first"), turn))
    if not first:
        raise NotObservedError("the first turn sent no prompt to the model, so its model is unknown", by_engine=True)
    fail_if(not first & again, f"the model option was lost: {', '.join(first)} at first, then {', '.join(again)}", turn)
    return passed(f"{len(turn.sent())} requests to {', '.join(sorted(again))}", turn)


@check("resume.same-handle", "main")
def same_handle(observed: Observations) -> Finding:
    """The resumed turn reported the requested id."""
    turn = observed.turn("main/again")
    occurrences = turn.reading.handle.occurrences
    reported = turn.session or (occurrences[0].value if occurrences else None)
    fail_if(reported is None, f"resumed {turn.resumed}, but reported no session id", turn)
    fail_if(reported != turn.resumed, f"resumed {turn.resumed}, but reported {reported}", turn, symptom="new-handle")
    return passed(f"{reported}", turn)


@check("resume.context-carried", "main")
def context_carried(observed: Observations) -> Finding:
    """One request contained the nonces of the first turn and of the resumed one."""
    first, turn = observed.turn("main/first"), observed.turn("main/again")
    lost = f"no request of the resumed turn contains the first turn's nonce {first.nonce}"
    fail_if(not turn.carries(first), lost, first, turn)
    return passed(f"{first.nonce} was sent again", first, turn)


@check("resume.repeated", "main")
def repeated(observed: Observations) -> Finding:
    """The third turn's request contained both earlier nonces, under the same id."""
    first, again, third = observed.turn("main/first"), observed.turn("main/again"), observed.turn("main/third")
    fail_if(not went_well(third), how_it_ended(third), third)
    fail_if(third.session is None, "the third turn reported no session id", third)
    another = f"the third turn reported {third.session}, not {first.session}"
    fail_if(third.session != first.session, another, third, symptom="new-handle")
    lost = "no request of the third turn contains both earlier nonces"
    fail_if(not third.carries(first, again), lost, first, again, third)
    return passed("both earlier turns were sent again", third)


@check("resume.equal-replies", "main")
def equal_replies(observed: Observations) -> Finding:
    """Each of two equal replies was sent to the model, the second one after the first."""
    turns = []
    for which, step in (("first", "same"), ("second", "same-again")):
        turn = observed.turn(f"main/{step}")
        unsent = f"the {which} of two equal replies was not sent to the model ({how_it_ended(turn)})"
        fail_if(not arrived(turn.prompt, turn.watched), unsent, turn)
        turns.append(turn)
    sent = [max(times_in(request, turn.prompt) for request in turn.watched) for turn in turns]
    # a resume that forks the session doesn't carry the first reply
    forked = turns[1].session != turns[0].session
    dropped = "the second of two equal replies was not sent to the model, only the first, in the earlier conversation"
    fail_if(sent[1] <= sent[0] and not forked, dropped, *turns)
    return passed("both were sent", *turns)


@check("resume.other-cwd", "main")
def other_cwd(observed: Observations) -> Finding:
    """From another directory, the session was resumed, or (a deviation) not, with or without an error."""
    first, turn = observed.turn("main/first"), observed.turn("main/elsewhere")
    how = f"from another directory: {how_it_ended(turn)}"
    fail_if(turn.hung, how, turn, symptom="hang")
    fail_if(not went_well(turn), how, turn, symptom="refused")
    check_carried(turn, first, where="from another directory: ")
    return passed("resumed from another directory", turn)


@check("resume.later-minute", "later-minute")
def later_minute(observed: Observations) -> Finding:
    """Session A was resumed in a later minute, and again after B had started, with all of its turns."""
    first, again = observed.turn("later-minute/a-first"), observed.turn("later-minute/a-again")
    fail_if(again.hung, how_it_ended(again), again, symptom="hang")
    lost = f"in a later minute, the session was lost ({how_it_ended(again)})"
    fail_if(not went_well(again) or not again.carries(first), lost, again, symptom="lost-at-once")
    third = observed.turn("later-minute/a-third")
    fail_if(third.hung, how_it_ended(third), third, symptom="hang")
    lost = f"after another session had started, the first was lost ({how_it_ended(third)})"
    fail_if(not went_well(third) or not third.carries(first, again), lost, third, symptom="lost-after-another")
    return passed("resumed twice, the second time in a later minute", again, third)


@check("resume.isolation", "later-minute", blames=("resume.later-minute",))
def isolation(observed: Observations) -> Finding:
    """No request that carries a prompt of one session contained a nonce of the other.

    Claude Code 2.0.12 also sends each new conversation of the directory to a small model, which names it; such a
    request is no part of the session in whose turn it is sent.
    """
    steps = {"a": ("first", "again", "third"), "b": ("first", "again")}
    names = {session: [f"later-minute/{session}-{step}" for step in of] for session, of in steps.items()}
    a, b = ([observed.turns[name] for name in of if name in observed.turns] for of in names.values())
    for turn, others in [(turn, b) for turn in a] + [(turn, a) for turn in b]:
        sent = {nonce for request in turn.sent() for nonce in request.nonces}
        leaked = [other.nonce for other in others if other.nonce in sent]
        fail_if(leaked, f"{', '.join(leaked)} of the other session was sent", turn)
    # the two share a home, in which every id must be unique
    same = a and b and a[0].session is not None and a[0].session == b[0].session
    fail_if(same, f"both sessions have the id {a[0].session if a else None}", *a[:1], *b[:1])
    a, b = ([observed.turn(name) for name in of] for of in names.values())
    evidence = [turn for turn in (*a, *b) if turn.sent()]
    if not any(turn.resumed for turn in evidence if turn in b):
        how = how_it_ended(b[-1])
        raise NotObservedError(f"the second session was not resumed, so that nothing is shown ({how})", by_engine=True)
    silent = [turn.name for turn in (*a, *b) if turn not in evidence]
    reported = f"; not shown by {', '.join(silent)}, which sent no prompt" if silent else ""
    return passed(f"{len(evidence)} turns of two sessions{reported}", *evidence)


@check("resume.after-compaction", "compaction")
def after_compaction(observed: Observations) -> Finding:
    """A session that got too long was summarized, and a resume under its id sent the summary and the prompt."""
    compaction = observed.contract.hermetic.compaction
    if compaction is None:
        raise SkippedError("the contract names nothing that makes this release compact a conversation")
    first, again, third = (observed.turn(f"compaction/{step}") for step in ("first", "again", "third"))
    for turn, where in ((again, "in the turn that got too long: "), (third, "in the next turn: ")):
        fail_if(not went_well(turn), f"{where}{how_it_ended(turn)}", turn, symptom="refused")
        fail_if(not turn.reading.ended, f"{where}no terminal event", turn, symptom="framing")
        wrong = [*turn.reading.framing[:1], *([turn.reading.handle.detail] if turn.reading.handle.problem else [])]
        fail_if(wrong, f"{where}{', '.join(wrong)}", turn, symptom="framing")
        another = f"{where}resumed {turn.resumed}, but reported {turn.session}"
        fail_if(turn.session != turn.resumed, another, turn, symptom="new-handle")
    asked = [turn for turn in (again, third) if any(request.reply == "summary" for request in turn.watched)]
    silent = f"the model counted {compaction.tokens} tokens, but no request asked it for a summary"
    fail_if(not asked, silent, again, third, symptom="not-compacted")
    unsent = f"after the summary, the prompt was not sent to the model ({how_it_ended(third)})"
    fail_if(not third.sent(), unsent, third, symptom="refused")
    carried = any(third.summary in request.nonces for request in third.sent())
    unused = "the model was asked for a summary, but the whole conversation was sent to it with the next prompt"
    fail_if(not carried and third.carries(first, again), unused, *asked, third, symptom="not-compacted")
    lost = "the summary was not sent to the model with the next prompt"
    fail_if(not carried, lost, *asked, third, symptom="context-lost")
    return passed("the summary was sent to the model with the next prompt", again, third)


@check("resume.long-session", "long-session")
def long_session(observed: Observations) -> Finding:
    """Each turn was resumed under the same id, and the last one's request contained the nonces of all turns."""
    first, previous = observed.turn("long-session/turn-1"), observed.turn("long-session/turn-2")
    turns = [first]
    for index in range(2, LONG_SESSION + 1):
        turn = observed.turn(f"long-session/turn-{index}")
        where = f"turn {index}: "
        fail_if(not went_well(turn), f"{where}{how_it_ended(turn)}", turn, symptom="refused")
        another = f"{where}resumed {turn.resumed}, but reported {turn.session}"
        fail_if(turn.session != previous.session, another, turn, symptom="new-handle")
        check_carried(turn, *turns, where=where)
        turns.append(turn)
    again, last = turns[1], turns[-1]
    grown = f"{again.cpu_seconds:.1f} and {last.cpu_seconds:.1f} s of CPU time"
    took = f"turn 2 took {again.seconds:.1f} s, turn {len(turns)} {last.seconds:.1f} s ({grown})"
    return passed(f"{len(turns)} turns of one session, all sent at the end; {took}", first, again, last)


@check("resume.dead-handle", "bad-handles")
def dead_handle(observed: Observations) -> Finding:
    """Resuming with a well-formed id that belongs to no session failed."""
    return _loud(observed.turn("bad-handles/dead"))


@check("resume.malformed-handle", "bad-handles")
def malformed_handle(observed: Observations) -> Finding:
    """Resuming with a malformed id failed."""
    return _loud(observed.turn("bad-handles/malformed"))


@check("live.context-recalled", "main")
def context_recalled(observed: Observations) -> Finding:
    """The answer of the resumed turn contained the random word of the first one."""
    first, turn = observed.turn("main/first"), observed.turn("main/again")
    answer = turn.reading.final_text or ""
    evidence = f"it answered {answer.strip()[:EXCERPT]!r}" if answer else how_it_ended(turn)
    lost = f"the answer does not contain the word {first.nonce} of the first turn: {evidence}"
    fail_if(first.nonce.casefold() not in re.findall(r"[\w-]+", answer.casefold()), lost, first, turn)
    return passed(f"{first.nonce} was sent and recalled", first, turn)


def _models(turn: Turn) -> set[str]:
    return {request.model or "no model" for request in turn.sent()}


def _loud(turn: Turn) -> Finding:
    fail_if(turn.hung, how_it_ended(turn), turn, symptom="hang")
    silent = turn.exit_code == 0 and not turn.reading.failures
    fresh = went_well(turn) and another_session(turn)
    fail_if(fresh, f"exit code 0 and a fresh session {turn.session}", turn, symptom="fresh-session")
    fail_if(silent or went_well(turn), f"no error, and no new id ({how_it_ended(turn)})", turn, symptom="quiet")
    fail_if(turn.exit_code == 0, f"an error was reported, with {how_it_ended(turn)}", turn, symptom="exit-0")
    late = f"the prompt was sent to the model before it failed ({how_it_ended(turn)})"
    fail_if(turn.requests and turn.sent(), late, turn, symptom="late")
    return passed(how_it_ended(turn), turn)
