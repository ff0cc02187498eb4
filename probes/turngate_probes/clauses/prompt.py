"""Checks of what is passed to the engine: options, prompts, standard input."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from turngate import EngineContract, Mode, Outcome
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.file_slot import as_in_contract
from turngate.contract.clauses import Reason
from turngate.contract.launch import ApprovalSign
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, fail_if, how_it_ended, passed, unmatched, went_well
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.cases import LARGE_PROMPT, LONG_ANSWER
from turngate_probes.harness.observations import NotObservedError, Observations, Turn
from turngate_probes.stub_model import Exchange

_MAX_SHOWN = 100
_LOSSES = (None, "blanks", "lines", "characters", "cut")  # from the least to the worst


@check("interactive.no-auto-flags", EVERYTHING)
def no_auto_flags(observed: Observations) -> Finding:
    """No interactive turn had an auto-approve flag in its argv or a sign of one in its requests; the first ended."""
    turns = [turn for turn in observed.turns.values() if turn.mode is Mode.INTERACTIVE]
    for turn in turns:
        check_asks(turn, turn.own_arguments, observed.contract)
    first = observed.turn("main/first")
    unanswered = not went_well(first) or first.reading.final_text is None
    fail_if(
        unanswered,
        f"without auto-approve flags it returned no result ({how_it_ended(first)}){unmatched(first, 'final')}",
        first,
    )
    return passed(f"{len(turns)} interactive turns", first)


@check("auto.flags-accepted", "auto", blames=RESUMABLE)
def auto_flags_accepted(observed: Observations) -> Finding:
    """In mode auto, both turns ran with the contract's flags, and the requests show their effect."""
    # one by one, because a failed first turn may be why there is no second one
    for turn in map(observed.turn, ("auto/first", "auto/again")):
        fail_if(not went_well(turn) or (turn.requests is not None and not turn.sent()), how_it_ended(turn), turn)
        unchanged = "the flags were accepted, but the request shows no effect"
        fail_if(acts_unasked(turn, observed.contract) == "", unchanged, turn)
    accepted = "accepted: " + " ".join(observed.contract.launch.auto)
    return passed(accepted, observed.turn("auto/first"), observed.turn("auto/again"))


@check("prompt.not-a-flag", "flag-prompts", blames=RESUMABLE)
def not_a_flag(observed: Observations) -> Finding:
    """Prompts that look like flags were sent to the model as whole lines of the user's text."""
    turns = []
    for turn in map(observed.turn, ("flag-prompts/first", "flag-prompts/again")):
        fail_if(
            not arrived(turn.prompt, turn.watched),
            f"the prompt {turn.prompt} was not sent to the model ({how_it_ended(turn)})",
            turn,
        )
        turns.append(turn)
    return passed(f"sent as text of the user: {', '.join(turn.prompt for turn in turns)}", *turns)


@check("prompt.large", "large-prompt")
def large(observed: Observations) -> Finding:
    """A 200 KB prompt was sent completely."""
    if not observed.contract.launch.accepts(LARGE_PROMPT):
        raise SkippedError("the contract limits prompts to fewer bytes")
    turn = observed.turn("large-prompt/first")
    fail_if(not went_well(turn), how_it_ended(turn), turn)
    largest = max((request.size or 0 for request in turn.watched), default=0)
    cut = f"{len(turn.prompt)} characters were not sent completely; the largest request has {largest} bytes"
    # the lines around it are for another clause
    line = max(turn.prompt.split("\n"), key=len)
    fail_if(not any(line in text for request in turn.watched for text in request.user_texts), cut, turn)
    return passed(f"all {len(turn.prompt)} characters were sent", turn)


@check("prompt.whole", "large-prompt", blames=("answer.whole", *RESUMABLE))
def prompt_whole(observed: Observations) -> Finding:
    """A prompt and a reply with unusual line ends and characters, and white space at both ends, were sent unchanged."""
    turns = []
    for turn in (_with_long_answer(observed), observed.turn("large-prompt/again")):
        fail_if(not turn.sent(), f"the prompt was not sent to the model ({how_it_ended(turn)})", turn)
        # an engine may put text of its own around it, and its other requests may have less of it
        got = [text for request in turn.sent() for text in request.user_texts]
        loss = min((lost(turn.prompt, text, turn.nonce) for text in got or [""]), key=_LOSSES.index)
        _check_whole(
            turn, f"{'the reply' if turn.resumed else 'the prompt'} is not whole where the model gets it", loss
        )
        turns.append(turn)
    return passed("prompt and reply were sent as they are", *turns)


@check("answer.whole", "large-prompt", blames=RESUMABLE)
def answer_whole(observed: Observations) -> Finding:
    """A slow reader of a pipe got all of a 200 KB answer with unusual line ends and characters."""
    first, by_file = _with_long_answer(observed), observed.contract.streams.stdout_file
    turns = [first, observed.turn("large-prompt/again")] if by_file else [first]
    for turn in turns:
        fail_if(not turn.sent(), f"the prompt was not sent to the model ({how_it_ended(turn)})", turn)
        got = (turn.reading.final_text or "").strip()
        loss = lost(LONG_ANSWER.strip(), got, "")
        escaped = any(json.dumps(LONG_ANSWER.strip(), ensure_ascii=ascii_)[1:-1] in got for ascii_ in (False, True))
        fail_if(escaped, "the answer has JSON escapes, so it is not as the model wrote it", turn, symptom="lines")
        partial = f"of an answer of {len(LONG_ANSWER.encode())} bytes and more, {len(turn.stdout)} bytes of output came"
        fail_if(loss and by_file and turn is first, f"{partial} through a file, which helps others", turn)
        _check_whole(turn, f"{partial} through a pipe that is read slowly", loss)
    return passed(f"all {len(LONG_ANSWER.encode())} bytes came", *turns)


def _check_whole(turn: Turn, what: str, loss: str | None) -> None:
    fail_if(loss == "cut", f"{what}: a part is missing", turn, symptom="cut")
    fail_if(loss == "characters", f"{what}: characters that are not ASCII differ", turn, symptom="characters")
    fail_if(loss == "lines", f"{what}: line ends or blanks differ", turn, symptom="lines")
    fail_if(loss == "blanks", f"{what}: white space at its start or end is missing", turn, symptom="blanks")


def _with_long_answer(observed: Observations) -> Turn:
    """Return the turn with the long answer, which recordings don't have."""
    turn = observed.turn("large-prompt/first")
    if turn.scripted != LONG_ANSWER:
        raise NotObservedError(f"the recording of {turn.name} has no long answer", Reason.NO_RECORDING)
    return turn


@check("stdin.open", "stdin-open")
def stdin_open(observed: Observations) -> Finding:
    """A turn whose prompt is an argument ended although standard input stayed open."""
    contract = observed.contract
    if contract.guards.proof or not any(channel.via == "argument" for channel in contract.launch.prompt):
        raise SkippedError("the prompt is passed only on standard input, which ends with it")
    turn = observed.turn("stdin-open/first")
    fail_if(turn.hung, how_it_ended(turn), turn, symptom="hang")
    fail_if(not went_well(turn), how_it_ended(turn), turn)
    return passed(how_it_ended(turn), turn)


@check("text.imitation", "imitation")
def imitation(observed: Observations) -> Finding:
    """Text that imitates the engine's records changed neither the id nor the answer."""
    turn = observed.turn("imitation/first")
    session = turn.session if went_well(turn) else None
    fail_if(
        session is None,
        f"no session id could be read from the turn ({how_it_ended(turn)}){unmatched(turn, 'handle')}",
        turn,
    )
    fail_if(str(session) in turn.scripted, f"the id {session} comes from the model's text", turn)
    changed = (turn.reading.final_text or "").strip() != turn.scripted.strip()
    fail_if(changed, f"the agent's text differs from the model's{unmatched(turn, 'final')}", turn)
    fail_if(turn.reading.result.outcome is Outcome.ASK_USER, "imitated text was read as a question", turn)
    return passed("id and answer come from the engine", turn)


def lost(sent: str, got: str, nonce: str) -> str | None:
    """Return what a text has lost within another one: the worst of `_LOSSES`."""
    if sent in got:
        return None
    if sent.strip() in got:
        return "blanks"
    if _squeezed(sent) in _squeezed(got):
        return "lines"
    # every part is there, whatever became of its other characters
    plain, words = _words(sent), _words(got)
    return "characters" if nonce in got and " ".join(plain) in " ".join(words) else "cut"


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _words(text: str) -> list[str]:
    """Return the words of ASCII letters and digits in a text."""
    return re.findall(r"[A-Za-z0-9]+", text)


def arrived(prompt: str, requests: Iterable[Exchange]) -> bool:
    """Return whether a prompt, verbatim, fills whole lines of a user's text in a request."""
    return any(times_in(request, prompt) for request in requests)


def times_in(request: Exchange, prompt: str) -> int:
    """Return in how many of a user's texts a prompt, verbatim, fills whole lines."""
    return sum(f"\n{prompt}\n" in f"\n{text.strip()}\n" for text in request.user_texts)


def check_asks(turn: Turn, arguments: Sequence[str], contract: EngineContract) -> None:
    """Check that a turn has no auto-approve flag in its arguments and no sign of one in its requests."""
    flags = auto_flags_in(as_in_contract(tuple(arguments), contract), contract)
    fail_if(flags, f"an interactive turn was run with {', '.join(flags)}", turn)
    evidence = acts_unasked(turn, contract)
    fail_if(evidence, f"an interactive turn acts without asking: its request shows {evidence}", turn)


def acts_unasked(turn: Turn, contract: EngineContract) -> str | None:
    """Return the sign that the engine acts without asking; empty: only safe signs; None: no signs."""
    signs = [
        value for request in turn.requests or () for sign in contract.approval_signs for value in _read(sign, request)
    ]
    return max(signs, key=len, default=None)


def _read(sign: ApprovalSign, request: Exchange) -> Iterator[str]:
    body = request.body.decode("utf-8", "replace")
    if sign.unless is not None and re.search(sign.unless, body):
        return
    if sign.pattern is not None:
        for match in re.finditer(sign.pattern, body):
            yield "" if match["value"] in sign.safe_values else match[0][:_MAX_SHOWN]
    elif request.tools:
        yield ", ".join(tool for tool in request.tools if tool in sign.tools)
