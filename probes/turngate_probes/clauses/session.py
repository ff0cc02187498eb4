"""Checks of a session after a call, a failure or a kill, and of turns that run at the same time.

What a turn has done to its session shows in the request of the next one: a success alone proves nothing.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from signal import Signals

from msgspec import Struct

from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import another_session, check, how_it_ended, passed, went_well
from turngate_probes.clauses.settings import calling, check_machine
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations, Turn
from turngate_probes.harness.session_cases import (
    A_AGAIN,
    A_BESIDE,
    A_LAST,
    B_AGAIN,
    CALLS,
    FAILURES,
    KILLS,
    REPEATED,
    A,
    B,
    Disturbance,
    disturbances,
)
from turngate_probes.journal.tool_access import reported

_KILLED = -Signals.SIGKILL


class Sign(Struct, frozen=True):
    """What is wrong with a session, the turns that show it, and the symptom (empty: nothing excuses it)."""

    detail: str
    turns: tuple[Turn, ...]
    symptom: str = ""


class Aftermath(Struct, frozen=True):
    """The turn in which something happened to a session, its first turn, and the one after."""

    what: str
    opening: Turn
    happened: Turn
    after: Turn

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, in order, each once."""
        return tuple({turn.name: turn for turn in (self.opening, self.happened, self.after)}.values())

    def signs(self) -> Iterator[Sign]:
        """Yield the first sign that the next turn did not go on with the session; one whose model fails may fail."""
        yield from islice(_lost(self.after, self.opening, where=f"after {self.what}"), 1)

    def signs_of_calls(self) -> Iterator[Sign]:
        """Yield signs that the next request lacks the result of a tool call, or has one that no call asks for."""
        before, where = self._unpaired(self.happened), f"after {self.what}"
        calls, results = (
            [*dict.fromkeys(tool_id for tool_id in found if tool_id not in known)]
            for found, known in zip(self._unpaired(self.after), before, strict=True)
        )
        if calls:
            detail = f"{where}: the next request has a tool call without its result, which vendors refuse: {calls[0]}"
            yield Sign(detail, self.turns, symptom="unanswered-call")
        if results:
            detail = f"{where}: the next request has a result twice, or without its call: {results[0]}"
            yield Sign(detail, self.turns, symptom="repeated-result")

    @staticmethod
    def _unpaired(turn: Turn) -> tuple[list[str], list[str]]:
        """Return the ids of calls without a result and of results without a call, in all requests of a turn."""
        each = [request.unpaired for request in turn.watched]
        return [call for ids in each for call in ids.calls], [result for ids in each for result in ids.results]


@check("resume.after-tool-call", "disturbed", "tool-call", blames=RESUMABLE)
def after_tool_call(observed: Observations) -> Finding:
    """After an executed, a failed and a denied tool call, the next turn continued the session with their results."""
    aftermaths = [_after(observed, each) for each in CALLS]
    denied = observed.turn("tool-call/first")
    aftermaths.append(Aftermath("a denied tool call", denied, denied, observed.turn("tool-call/again")))
    signs = list[Sign]()
    for each in aftermaths:
        signs += [*each.signs(), *each.signs_of_calls()]
    for happened in () if signs else (each.happened for each in aftermaths):
        calling(happened)
    if not signs and not aftermaths[0].happened.acted:
        raise _ineffective(observed, aftermaths[0].happened)
    return _finding(signs, "the session went on after a tool call, a failed one and a denied one", aftermaths)


@check("resume.after-failure", "disturbed", blames=RESUMABLE)
def after_failure(observed: Observations) -> Finding:
    """After each failure of the model backend, the next turn continued the session."""
    aftermaths = [_after(observed, each) for each in FAILURES]
    signs = [sign for each in aftermaths for sign in each.signs()]
    for happened in () if signs else (each.happened for each in aftermaths):
        if not _fails(happened):
            unasked = f"in {happened.name} the model was not asked, so nothing failed"
            raise NotObservedError(unasked, by_engine=True)
    return _finding(signs, f"the session went on after {', '.join(each.what for each in aftermaths)}", aftermaths)


@check("resume.after-kill", "disturbed", blames=RESUMABLE)
def after_kill(observed: Observations) -> Finding:
    """After each kill, the next turn continued the session or failed at once, and no ended turn was lost."""
    aftermaths = [_after(observed, each) for each in KILLS]
    details, signs = list[str](), list[Sign]()
    for each in aftermaths:
        happened, after = each.happened, each.after
        if after.requests == () and not after.hung and (after.exit_code or after.reading.failures):
            details.append(f"said that it can't go on after {each.what} ({how_it_ended(after)})")
            continue
        early = "" if happened.exit_code == _KILLED else ", though it had exited before"
        details.append(f"went on after {each.what}{early}")
        signs += [*each.signs(), *(each.signs_of_calls() if happened.called else ())]
        if happened.reading.ended and after.carries(each.opening) and not after.carries(happened):
            lost = f"after {each.what}: the turn had ended, but the next request lacks it"
            signs.append(Sign(lost, each.turns, symptom="turn-lost"))
    for happened in () if signs else (each.happened for each in aftermaths[:-1]):
        if happened.exit_code != _KILLED:
            raise _ineffective(observed, happened)
    return _finding(signs, f"it {'; it '.join(details)}", aftermaths)


@check("session.at-once", "at-once", blames=RESUMABLE)
def at_once(observed: Observations) -> Finding:
    """Two conversations ran side by side as they do alone; two simultaneous resumes were each kept or refused."""
    a, b = (observed.turn(f"at-once/{step}") for step in (A, B))
    again, beside, b_again = (observed.turn(f"at-once/{step}") for step in (A_AGAIN, A_BESIDE, B_AGAIN))
    of_a, of_b = (a, again, beside), (b, b_again)
    kept = [turn for turn in (again, beside) if went_well(turn)]
    signs = list[Sign]()
    for turn, earlier, others in ((a, (), of_b), (b, (), of_a), (b_again, (b,), of_a)):
        signs += [*_lost(turn, *earlier, where="beside another conversation"), *_mixed(turn, others)]
    if not signs:
        _check_beside(b, *kept)
    for turn in (again, beside):
        # a refusal is told, and so is another id
        lost = _lost(turn, a, where="beside another resume of its session") if turn.hung or turn in kept else ()
        signs += [*(sign for sign in lost if sign.symptom != "new-handle"), *_mixed(turn, of_b)]
    last = observed.turn(f"at-once/{A_LAST}")
    signs += [*_lost(last, a, where="after two resumes at once"), *_mixed(last, of_b)]
    lacking = [turn.name for turn in kept if not another_session(turn) and not last.carries(turn)]
    if lacking and last.carries(a):
        missing = f"two resumes of one session at once succeeded, but the next request lacks {', '.join(lacking)}"
        signs.append(Sign(missing, (again, beside, last), symptom="message-lost"))
    refused = next((how_it_ended(turn) for turn in (again, beside) if turn not in kept), "")
    how = f"refused one ({refused})" if refused else "kept both"
    detail = f"two conversations kept apart; of two resumes of one session at once it {how}"
    return _found(signs) or passed(detail, a, b, again, beside, b_again, last)


def _lost(turn: Turn, *earlier: Turn, where: str) -> Iterator[Sign]:
    """Yield signs that a turn failed without a reason, or did not go on with the session of the earlier turns."""
    ended = f"{where}: {how_it_ended(turn)}"
    if turn.hung and not (_fails(turn) and turn.sent()):
        yield Sign(ended, (turn,), symptom="hang")
    elif not turn.sent():
        unsent = f"{where}: the prompt was not sent to the model ({how_it_ended(turn)})"
        yield Sign(unsent, (turn,), symptom="refused")
    elif not turn.carries(*earlier):
        fresh = another_session(turn)
        how = f"in a fresh session {turn.session}" if fresh else "though no other session id came back"
        lost = f"{where}: earlier turns were not sent to the model, {how}"
        yield Sign(lost, (*earlier, turn), symptom="fresh-session" if fresh else "context-lost")
    elif turn.resumed and another_session(turn):
        forked = f"{where}: resumed {turn.resumed}, but reported {turn.session}"
        yield Sign(forked, (turn,), symptom="new-handle")
    elif not _fails(turn) and turn.signal is None and not went_well(turn):
        yield Sign(ended, (turn,), symptom="refused")


def _fails(turn: Turn) -> bool:
    """Return whether the model failed."""
    return any(request.reply.startswith(("cut", "refuse ")) for request in turn.watched)


def _mixed(turn: Turn, others: Sequence[Turn]) -> Iterator[Sign]:
    """Yield signs that a turn sent, answered or reported what belongs to another conversation."""
    sent = {nonce for request in turn.sent() for nonce in request.nonces}
    if leaked := [other.name for other in others if other.nonce in sent]:
        yield Sign(f"it sent the prompt of another conversation: {', '.join(leaked)}", (turn,))
    answer = (turn.reading.final_text or "").strip()
    if mixed := next((other.name for other in others if other.scripted.strip() == answer), ""):
        yield Sign(f"it gave the answer of another conversation: {mixed}", (turn,))
    if turn.session and (same := [other for other in others if other.session == turn.session]):
        yield Sign(f"it reported the id of another conversation: {turn.session}", (turn, *same))


def _finding(signs: Sequence[Sign], detail: str, aftermaths: Sequence[Aftermath]) -> Finding:
    every = {turn.name: turn for each in aftermaths for turn in each.turns}
    return _found(signs) or passed(detail, *every.values())


def _found(signs: Sequence[Sign]) -> Finding | None:
    """Return the failure that the signs show; a deviation excuses it only if it excuses all of them."""
    if not signs:
        return None
    excusable = all(sign.symptom for sign in signs)
    symptoms = tuple(dict.fromkeys(sign.symptom for sign in signs)) if excusable else ()
    evidence = tuple(dict.fromkeys(turn.name for sign in signs for turn in sign.turns))
    return Finding(False, "; ".join(sign.detail for sign in signs), symptoms, evidence)  # noqa: FBT003


def _after(observed: Observations, each: Disturbance) -> Aftermath:
    steps = disturbances(observed.contract)
    if each not in steps:
        raise NotObservedError("the contract names no command for the model to call", Reason.CONTRACT)
    following = steps[steps.index(each) + 1]
    happened = observed.turns.get(f"disturbed/{each.step}{REPEATED}") or observed.turn(f"disturbed/{each.step}")
    after = observed.turn(f"disturbed/{following.step}")
    begun = [turn for turn in observed.turns.values() if turn.case == "disturbed" and turn.session == after.resumed]
    return Aftermath(each.what, next(turn for turn in begun if turn.resumed is None), happened, after)


def _ineffective(observed: Observations, turn: Turn) -> NotObservedError:
    """Return why nothing is shown by a turn in which a command had no effect, or which was not killed."""
    check_machine(reported(turn.watched) or "", observed.contract)
    if not turn.called:
        return NotObservedError(f"{turn.name} was not killed ({how_it_ended(turn)})", by_engine=True)
    return NotObservedError(f"in {turn.name} the command had no effect, so that nothing is shown", Reason.CONTRACT)


def _check_beside(*turns: Turn) -> None:
    """NotObservedError if the turns did not run at the same time: each asked its model before another one ended."""
    asked = max(min(request.at for request in turn.sent()) for turn in turns)
    if asked > min(turn.finished_at for turn in turns):
        raise NotObservedError("the turns did not run at the same time: the machine was too slow", Reason.MACHINE)
