"""Judges one run of a scenario: from the records of its calls, COMMAND's exit codes and its output."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from turngate_probes.conform.calls import EngineCall
from turngate_probes.conform.catalogue import GRACE, Scenario
from turngate_probes.conform.plan import Conversation
from turngate_probes.conform.process_turns import turns_of
from turngate_probes.simulate.faults import changed
from turngate_probes.simulate.misbehaviour import FLOOD_LINE, SAYS, UNREAD

EXCERPT = 120
_TEXT = "orchestrator.text-whole"
_BROKEN = (-signal.SIGPIPE, 128 + signal.SIGPIPE)
# the faults of sessions, which do nothing to an orchestrator that sends the whole conversation in each turn
_OF_SESSIONS = {"turn", "session", "session_id", "changes_session"}
# those of them that do nothing to an orchestrator that chose the id itself
_OF_IDS = {"turn", "session_id"}
_NEEDED = ("HOME", "PATH")


class Ran(Struct, frozen=True):
    """What one COMMAND did with one conversation.

    `exit_code` is None if it had to be ended; `left` are the processes that it left running. `ended` is a monotonic
    time in seconds.
    """

    conversation: Conversation
    exit_code: int | None
    stdout: str
    stderr: str
    seconds: float
    left: tuple[str, ...]
    ended: float = 0.0


class Evidence(Struct, frozen=True):
    """Everything that is known about one scenario with one engine.

    `interactive`: a user is in the loop, so no call may let the engine act without asking. `keys` are the user's keys,
    `exposed` the files that contain one and that every user can read, and `left` those in the workspace that contain
    what the user said.
    """

    scenario: Scenario
    ran: tuple[Ran, ...]
    calls: tuple[EngineCall, ...]
    interactive: bool = True
    keys: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Breach(Struct, frozen=True):
    """A rule that is broken, and what shows it; `call` is the number of the call (0: none)."""

    rule: str
    detail: str
    call: int = 0


def breaches(evidence: Evidence) -> list[Breach]:
    """Return every breach, at most one for each rule: that of a call if there is one, for it says more."""
    general, precise = dict[str, Breach](), dict[str, Breach]()
    for breach in _result(evidence):
        general.setdefault(breach.rule, breach)
    for breach in (breach for check in _CALLS for breach in check(evidence)):
        precise.setdefault(breach.rule, breach)
    if "orchestrator.arguments" in precise and evidence.scenario.rule != _TEXT:
        # that the conversation fails, and that a text does not arrive, follows from the refused call
        precise.pop(_TEXT, None)
        if evidence.scenario.expect == "success" and any(ran.exit_code for ran in evidence.ran):
            general.pop(evidence.scenario.rule, None)
    return list((general | precise).values())


def in_calls(evidence: Evidence) -> list[Breach]:
    """Return the breaches of the rules that hold for every call, whatever COMMAND is."""
    return [breach for check in _ALWAYS for breach in check(evidence)]


def in_last_turn(evidence: Evidence, ran: Ran) -> float:
    """Return the seconds from the start of the engine's last turn to COMMAND's end; without a turn, 0."""
    return ran.ended - max((turn.started.at for turn in _each_turn(evidence)), default=ran.ended)


def is_late(evidence: Evidence, ran: Ran) -> bool:
    """Whether the deadline had long passed: by the grace, and by the time that all took before the last turn.

    That time shows how slow the machine is. It counts only up to the grace, so that a fixed limit of a minute is late.
    """
    took = in_last_turn(evidence, ran)
    return took > evidence.scenario.deadline + GRACE + min(ran.seconds - took, GRACE)


def last_words(ran: Ran) -> str:
    """Return how COMMAND ended: its exit code, and its last line, preferably on stderr and about an error.

    Node.js prints its version after an error.
    """
    lines = (ran.stderr.strip() or ran.stdout.strip()).splitlines()
    last = next((line for line in reversed(lines) if re.search(r"rror\]?: ", line)), lines[-1] if lines else "")
    return f"it exited with {ran.exit_code}" + (f": {_quoted(last)}" if last else "")


def _course(evidence: Evidence) -> str:
    """Return how far the engine came: its last turn, and how it ended."""
    turns = _turns(evidence)
    if not turns:
        return "; no turn of the engine was started" if evidence.calls else "; the engine was not started"
    last = turns[-1]
    if last.ended is None:
        return f"; call {last.number} of the engine was ended"
    printed = f" and printed {_quoted(last.last_line)} on stderr" if last.last_line else ""
    return f"; call {last.number} of the engine exited with {last.ended.exit_code}{printed}"


def _result(evidence: Evidence) -> Iterator[Breach]:
    """Compare what each COMMAND did with what its scenario expects."""
    scenario, rule = evidence.scenario, _rule(evidence)
    for ran in evidence.ran:
        answered = all(_has(ran.stdout, word) for word in _expected(evidence, ran))
        others = [other.conversation.answer for other in evidence.ran if other is not ran]
        if any(answer in ran.stdout for answer in others):
            yield Breach("orchestrator.separate-conversations", "it printed the answer of another conversation")
        elif ran.exit_code is None:
            yield Breach(scenario.rule, f"it was still running after {ran.seconds:.0f} s, and was ended")
        elif ran.exit_code == 0 and scenario.expect == "failure" and not (answered and _unaffected(evidence, ran)):
            why = (
                "it exited with 0, though the user had canceled"
                if scenario.cancel_after
                else "it exited with 0, but had to fail"
            )
            yield Breach(scenario.unless_fails or scenario.rule, f"{why}; it printed {_quoted(ran.stdout)}")
        elif ran.exit_code == 0 and not answered:
            printed = f"it printed {_quoted(ran.stdout)}" if ran.stdout.strip() else "it printed nothing"
            yield Breach(rule, f"it exited with 0 without the answer: {printed}{_course(evidence)}")
        elif ran.exit_code != 0 and not _reads_input(evidence) and _broke(ran):
            yield Breach(scenario.rule, f"the broken pipe ended it, and not what the engine said: {last_words(ran)}")
        elif ran.exit_code != 0 and scenario.expect == "success":
            yield Breach(rule, f"{last_words(ran)}{_course(evidence)}")
        elif is_late(evidence, ran):
            took = f"it took {in_last_turn(evidence, ran):.0f} s from the start of the last turn to its end"
            yield Breach(scenario.rule, f"{took}, but TURNGATE_DEADLINE_SEC was {scenario.deadline:g}")
        if ran.left:
            yield Breach("orchestrator.leaves-nothing-running", f"still running: {'; '.join(ran.left)}")


def _rule(evidence: Evidence) -> str:
    """Return the rule that a COMMAND without the answer breaks: a flood that it has read blocked nothing."""
    size, turns = max((play.stderr_bytes for play in evidence.scenario.plays), default=0), _turns(evidence)
    is_read = size and turns and all(call.flooded > size - len(FLOOD_LINE) for call in turns)
    return "orchestrator.reads-any-output" if is_read else evidence.scenario.rule


def _has(printed: str, word: str) -> bool:
    """Whether a word was printed, as it is or with the escapes of JSON."""
    escaped = re.sub(r"\\u[0-9A-Fa-f]{4}", lambda escape: escape[0].lower(), printed)
    return word in printed or json.dumps(word)[1:-1] in escaped


def _expected(evidence: Evidence, ran: Ran) -> tuple[str, ...]:
    """Return what the output must contain: the answer, and words before it that no quoting changes."""
    says = [play.says for play in evidence.scenario.plays if play.says == "unicode"]
    return (ran.conversation.answer, *(SAYS[each].strip() for each in says))


def _auto_approval(evidence: Evidence) -> Iterator[Breach]:
    for call in evidence.calls if evidence.interactive else ():
        if acts := call.auto_approving:
            yield _breach("no-auto-approval", f"these let it act without asking: {', '.join(acts)}", call)


def _arguments(evidence: Evidence) -> Iterator[Breach]:
    for call in evidence.calls:
        if call.started.kind == "refused":
            yield _breach("arguments", f"the engine refused them: {call.started.problem}", call)


def _directory(evidence: Evidence) -> Iterator[Breach]:
    for call in _turns(evidence):
        owner = _owner(evidence, call)
        talks = [owner] if owner else [ran.conversation for ran in evidence.ran]
        fitting = [os.path.realpath(talk.workspace) for talk in talks]
        for directory in call.directories:
            if directory not in fitting:
                yield _breach("same-directory", f"it ran in {directory} instead of TURNGATE_WORKSPACE", call)


def _stdin(evidence: Evidence) -> Iterator[Breach]:
    for call in _turns(evidence):
        started = call.started
        # an engine that has its prompt doesn't wait for a terminal
        typed = started.stdin == "terminal" and started.prompt is not None
        if call.ended and not call.stdin_closed and started.kind == "turn" and not typed and _reads_input(evidence):
            yield _breach("stdin", f"standard input was an open {call.started.stdin}", call)


def _ids(evidence: Evidence) -> Iterator[Breach]:
    """Follow the conversations: each later turn resumes the id that the one before it printed.

    A call with the text of an earlier one is another attempt of that turn, and may resume what that one did.
    """
    owners: dict[str, Conversation | None] = {}
    latest: dict[Conversation | None, str] = {}
    tried: dict[tuple[Conversation | None, object], str | None] = {}
    for call in _said(evidence):
        resumed, owner = call.started.resumed, _owner(evidence, call)
        if resumed and resumed not in owners and _of_a_process(evidence, resumed, call):
            owners[resumed], latest[owner] = owner, resumed
        attempt = owner, _turn_in(call, owner)
        repeats = tried.setdefault(attempt, latest.get(owner)) == resumed
        if call.started.newest_session:
            what = f"it resumed whichever session `{call.started.newest_session}` chooses"
            yield _breach("resumes-the-id", f"{what}: that may be another conversation's", call)
        elif resumed is None:
            if owner in latest and not repeats and not _replays(call, owner):
                yield _breach("resumes-the-id", "it started a fresh session instead of a resume", call)
        elif resumed not in owners:
            decoy = any(
                resumed.encode() in before.stdout or resumed in before.stderr
                for before in evidence.calls
                if before.number < call.number
            )
            rule = "id-from-its-place" if decoy else "resumes-the-id"
            where = "was printed, but not as the session's id" if decoy else "no turn of this run printed"
            yield _breach(rule, f"it resumed {resumed!r}, which {where}", call)
        elif owner and owner is not owners[resumed]:
            yield _breach("separate-conversations", "it resumed the session of another conversation", call)
        elif latest[owners[resumed]] != resumed and not repeats:
            yield _breach(
                "resumes-the-id", f"it resumed {resumed!r}, but the last turn printed {latest[owners[resumed]]!r}", call
            )
        chosen = call.started.chosen if resumed is None else None
        if handle := call.handle or chosen:
            owners[handle] = owners.get(resumed or "", owner)
            latest[owners[handle]] = handle


def _of_a_process(evidence: Evidence, handle: str, call: EngineCall) -> bool:
    """Whether an earlier process for several turns printed a session id, which it may do in any of its messages."""
    before = (one for one in evidence.calls if one.number < call.number and one.started.kind == "process")
    return any(handle.encode() in one.stdout for one in before)


def _texts(evidence: Evidence) -> Iterator[Breach]:
    """Check that what the user wrote reached the engine, in some call."""
    received = [call.text or "" for call in _turns(evidence)]
    first = [call.text or "" for call in _turns(evidence) if call.started.resumed is None]
    processes = [call for call in _turns(evidence) if call.started.kind == "process"]
    kept, elsewhere = bool(processes), any(not call.stdin for call in processes)  # over HTTP, what came isn't known
    for ran in evidence.ran if _reads_input(evidence) and not elsewhere else ():
        if kept and ran.exit_code:
            continue  # it may have given up before it sent the text
        for number, prompt in enumerate(ran.conversation.prompts):
            # a text that is sent again is another attempt of its turn; in a process, all turns are one text
            succeeded = kept and evidence.scenario.expect == "success" and ran.exit_code == 0
            came = succeeded or (len(set(received)) > len(evidence.ran) * number if number else bool(first))
            if came and not any(prompt in text for text in received):
                what = "the prompt" if number == 0 else "the reply"
                got = _quoted(received[-1])
                yield _breach("text-whole", f"{what} did not arrive whole; the engine got {got}", None)


def _repeats(evidence: Evidence) -> Iterator[Breach]:
    """Check that what the user said is not sent to a session that has it: by a turn that succeeded, or by a reply."""
    if evidence.scenario.expect != "success":
        return
    kept = dict[tuple[str | None, Conversation, object], EngineCall]()
    for call in _said(evidence):
        owner, resumed = _owner(evidence, call), call.started.resumed
        if owner is None:
            continue
        turn = _turn_in(call, owner)
        if resumed and (before := kept.get((resumed, owner, turn))):
            earlier = "an earlier turn" if before.number == call.number else f"call {before.number}"
            yield _breach("sent-once", f"{earlier} had sent this to the session, and succeeded", call)
        elif resumed and turn != 1 and _replays(call, owner):
            yield _breach("sent-once", "it sent the first prompt again to the session that has it", call)
        if call.ended and call.ended.exit_code == 0:
            kept[call.handle or resumed, owner, turn] = call


def _options(evidence: Evidence) -> Iterator[Breach]:
    """Check that what a resumed session forgets is passed again."""
    firsts = dict[Conversation | None, tuple[str, ...]]()
    for call in _said(evidence):
        if (options := call.started.forgotten) is None:
            continue
        first = firsts.setdefault(_owner(evidence, call), options)
        if missing := [option for option in first if option not in options]:
            yield _breach("keeps-the-options", f"the first turn had {', '.join(missing)}, but not this one", call)


def _keys(evidence: Evidence) -> Iterator[Breach]:
    for call in evidence.calls:
        if any(key in token for key in evidence.keys for token in call.started.argv):
            yield _breach("keeps-keys-private", "the user's key is an argument", call)
    if any(key in output for key in evidence.keys for ran in evidence.ran for output in (ran.stdout, ran.stderr)):
        yield _breach("keeps-keys-private", "it printed the user's key", None)
    for path in evidence.exposed:
        yield _breach("keeps-keys-private", f"every user can read the key in {path}", None)


def _environment(evidence: Evidence) -> Iterator[Breach]:
    for call in _turns(evidence):
        if missing := [name for name in _NEEDED if name not in call.started.env]:
            yield _breach("passes-the-environment", f"it got no {' and no '.join(missing)}", call)


def _left_files(evidence: Evidence) -> Iterator[Breach]:
    for path in evidence.left:
        yield _breach("leaves-no-files", f"what the user said is still in {path}", None)


def _overlaps(evidence: Evidence) -> Iterator[Breach]:
    sessions: dict[str, list[EngineCall]] = {}
    for call in _each_turn(evidence):
        for handle in {call.started.resumed, call.handle} - {None}:
            sessions.setdefault(str(handle), []).append(call)
    for calls in sessions.values():
        for before, after in pairwise(sorted(calls, key=lambda call: call.started.at)):
            if before.number == after.number or not before.started.forms.holds:
                continue  # one process takes its turns one after the other, and one may leave the session alone
            seen = [part.at for call in evidence.calls for part in call.heard if before.number in part.beside]
            if max([before.ended.at if before.ended else 0.0, *seen]) >= after.started.at:
                detail = f"call {before.number} was still running on the same session"
                yield _breach("one-turn-at-a-time", detail, after)


_Check = Callable[[Evidence], Iterator[Breach]]
_ALWAYS: Sequence[_Check] = (_auto_approval, _arguments, _stdin, _overlaps)
_CALLS: Sequence[_Check] = (*_ALWAYS, _directory, _ids, _texts, _repeats, _options, _keys, _environment, _left_files)


def _owner(evidence: Evidence, call: EngineCall) -> Conversation | None:
    """Return the conversation whose words a call carries; None: those of none, or of several."""
    talks = [ran.conversation for ran in evidence.ran]
    if len(talks) > 1:
        talks = [talk for talk in talks if any(prompt in (call.text or "") for prompt in talk.prompts)]
    return talks[0] if len(talks) == 1 else None


def _turn_in(call: EngineCall, owner: Conversation | None) -> object:
    """Return the turn whose words a call carries, or else its text, which another attempt repeats."""
    text = call.text or ""
    said = [number for number, prompt in enumerate(owner.prompts, 1) if prompt in text] if owner else []
    return said[-1] if said else text


def _reads_input(evidence: Evidence) -> bool:
    """Whether the engine reads its standard input."""
    return not any(play.exits_unread for play in evidence.scenario.plays)


def _broke(ran: Ran) -> bool:
    """Whether COMMAND was ended by a broken pipe, or shows it instead of the engine's own message."""
    if ran.exit_code in _BROKEN:
        return True
    output = f"{ran.stdout}\n{ran.stderr}"
    return UNREAD.strip() not in output and re.search(r"EPIPE|broken ?pipe", output, re.IGNORECASE) is not None


def _replays(call: EngineCall, owner: Conversation | None) -> bool:
    """Whether a call carries a conversation from its beginning to a reply, so that it needs no session."""
    text = call.text or ""
    return owner is not None and owner.prompts[0] in text and any(reply in text for reply in owner.prompts[1:])


def _unaffected(evidence: Evidence, ran: Ran) -> bool:
    """Whether a scenario is only about sessions, and the conversation needs none, or not the id that is printed."""
    faults = {name for play in evidence.scenario.plays for name in changed(play)}
    replayed = any(_replays(call, ran.conversation) for call in _turns(evidence))
    chosen = {call.started.chosen for call in _turns(evidence)} & {call.started.resumed for call in _turns(evidence)}
    return (replayed and faults <= _OF_SESSIONS) or (bool(chosen - {None}) and faults <= _OF_IDS)


def _turns(evidence: Evidence) -> list[EngineCall]:
    return [call for call in evidence.calls if call.started.kind in ("turn", "process")]


def _each_turn(evidence: Evidence) -> list[EngineCall]:
    """Return every turn as a call, in order; in a process for several turns, a session that had one is resumed."""
    known, found = set[str | None](), list[EngineCall]()
    turns = [turn for call in _turns(evidence) for turn in turns_of(call)]
    for turn in sorted(turns, key=lambda turn: turn.started.at):
        resumed = turn.handle if turn.started.kind == "process" and turn.handle in known else turn.started.resumed
        found.append(replace(turn, started=replace(turn.started, resumed=resumed)))
        known.add(turn.handle)
    return found


def _said(evidence: Evidence) -> list[EngineCall]:
    """Return every turn, of a process for several turns only those with words of the user."""
    words = [prompt for ran in evidence.ran for prompt in ran.conversation.prompts]
    return [
        turn
        for turn in _each_turn(evidence)
        if turn.started.kind == "turn" or any(word in (turn.text or "") for word in words)
    ]


def _breach(rule: str, detail: str, call: EngineCall | None) -> Breach:
    return Breach(f"orchestrator.{rule}", detail, call.number if call else 0)


def _quoted(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…")
