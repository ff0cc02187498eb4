"""Reads a turn: from the bytes of both streams and the exit code to an `AdapterTurnResult`.

The same reader handles a live process, from bytes as they arrive, and a recording, in bounded memory.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from msgspec import Struct

from turngate.argv.build import Invocation
from turngate.contract.engine_contract import EngineContract, FailureSign, ReportSign
from turngate.contract.launch import Stream
from turngate.model import (
    AdapterTurnResult,
    Ended,
    EngineSessionHandle,
    Failure,
    Mode,
    ModeName,
    Outcome,
    Reported,
)
from turngate.turn.envelope import Envelope, json_object, read_envelope
from turngate.turn.framing import Framer, framer
from turngate.turn.records import (
    Record,
    RecordDispatch,
    RecordHandler,
    RuleWatches,
    both,
    excerpt,
    getter,
    matches,
    obstacle_at,
    value_at,
)
from turngate.turn.session_id import HandleFinder, HandleReading

MAX_FINAL = 32 * 2**20
MAX_STDERR = 64 * 2**10
PART = 64 * 2**10
MAX_FAILURES = 100
MAX_REASON = 1000
MAX_REPORTED = 100
MAX_REPORT = 64 * 2**10
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
# what a session may lack, by symptoms of the clauses about turns that failed or whose engine was killed
_MAY_LACK = {
    "turn-lost": "this turn",
    "context-lost": "what was said so far",
    "fresh-session": "what was said so far",
}
NO_ANSWER = "the engine gave no answer, but may have changed files"


class FinalText:
    """The last text; texts of the same group are one answer, kept up to `MAX_FINAL` bytes of UTF-8.

    `lost` describes what can't be read and may be the last text or a part of it (empty: nothing).
    """

    def __init__(self) -> None:
        self.lost, self._torn = "", ""
        self._group: str | int | None = None
        # bytes grow in place; joining texts would copy all of them each time
        self._joined: bytearray | None = None
        # the texts after those that are joined
        self._parts: list[str] = []

    def observer(
        self, field: str, group: str | None, on_text: Callable[[str], None] | None
    ) -> Callable[[Record, int], None]:
        """Return an observer of records that takes the text at path `field` of each; `on_text` gets every text.

        Texts with the same value at path `group` belong together (None: each is an answer by itself).
        """
        text_of, take, parts = getter(field), self.take, self._parts

        def observe(record: Record, _index: int) -> None:
            text = text_of(record)
            if text.__class__ is str:
                if on_text:
                    on_text(text)
                parts[:] = (text,)
                self.lost = ""

        def observe_part(text: Any, group: Any) -> None:
            if text.__class__ is not str:
                return
            if on_text:
                on_text(text)
            if group.__class__ is str and group == self._group:
                parts.append(text)
            else:
                take(text, group if isinstance(group, str | int) else None)

        return both(field, group, observe_part) if group else observe

    def take(self, text: str, group: str | int | None) -> None:
        """Take the next text; one without a group (None) is an answer by itself."""
        if group is None or group != self._group:
            self._group, self._joined = group, None
            self._parts.clear()
            # what was lost may be the beginning of this answer, but not of a later one
            self.lost, self._torn = self._torn if group is not None else "", ""
        self._parts.append(text)

    def lose(self, what: str) -> None:
        """Note that something was lost that may be the next text."""
        self.lost = self._torn = what

    def begin(self, _record: Record, _index: int) -> None:
        """Let the next text begin another answer, whatever its group."""
        self._group = None

    def join(self) -> None:
        """Join the texts so far, so that many small ones take no more space than one; to be called now and then."""
        if self._joined is None:
            if not self._parts[1:]:
                return
            self._joined = bytearray()
        self._joined += "".join(self._parts).encode()
        self._parts.clear()
        del self._joined[MAX_FINAL:]

    @property
    def text(self) -> str | None:
        """The answer so far; None if there is none yet, or if it may be lost."""
        self.join()
        if self.lost:
            return None
        if self._joined is not None:
            # the limit may split a character
            return self._joined.decode("utf-8", "ignore")
        # a single text is within the limit, since a record is, and JSON takes no less space than the text in it
        return self._parts[0] if self._parts else None


class TurnReading(Struct, frozen=True):
    """Everything that the streams of one turn say.

    `result` is what the agent wants. `session` is what a resume needs (None: the turn shows no valid session id).
    `final_text` is the agent's last text (None: it is missing, blank or unreadable). `failures` lists the failures that
    the engine reported. `ended` says whether the record that proves a successful end was present. The rest is for
    diagnosis: `handle` says where session ids were found, `framing` lists violations of the framing, `census` counts
    the kinds of records, `unknown` lists those that the contract does not know, and `unmatched` names a path that
    matched no record, by the section that needs it: `handle`, `events`, `end` or `final`. `after_end` are the kinds of
    records after the one that proves the end, without those that the contract expects there. `crlf` are the streams
    with lines that end in CRLF. `reported` is what to know beside the answer, each once.

    >>> reading = turngate.read_turn(turngate.load_contract("codex", "0.169.0"), "auto", b"", b"no network", 1)
    >>> reading.result.failure_reason, reading.result.stderr
    ('ENGINE_FAILED: the engine exited with 1', 'no network')
    """

    result: AdapterTurnResult
    session: EngineSessionHandle | None
    handle: HandleReading
    final_text: str | None
    ended: bool
    failures: tuple[str, ...]
    framing: tuple[str, ...]
    census: dict[str, int]
    unknown: tuple[str, ...]
    unmatched: dict[str, str]
    after_end: tuple[str, ...] = ()
    crlf: tuple[Stream, ...] = ()
    reported: tuple[Reported, ...] = ()


class _Question(Struct, frozen=True):
    """The question that ended a turn: its text, the session id so far, and the census up to its terminal event.

    `expected` are the kinds of records that may still follow.
    """

    text: str
    handle: HandleReading
    census: Counter[str]
    expected: frozenset[str]


class TurnReader:
    """Takes the bytes of a turn as they arrive; `finish` returns the reading, once.

    In mode interactive, a question ends the turn: whatever the engine prints or does after its terminal event belongs
    to no turn of ours. In mode auto, the last answer counts.

    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> reader = turngate.TurnReader(codex, "auto", on_text=print)
    >>> reader.feed("stdout", b'{"type": "item.completed", "item": {"type": "agent_message", "te')
    >>> reader.feed("stdout", b'xt": "Done."}}\\n{"type": "turn.completed"}\\n')
    Done.
    >>> reader.over
    True
    >>> reader.finish(0).result.final_data
    {'text': 'Done.'}
    """

    def __init__(
        self,
        contract: EngineContract,
        mode: Mode | ModeName,
        *,
        turn_index: int = 1,
        resumed: str | None = None,
        needs_handle: bool | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        """Read with `contract`; `resumed` is the expected session id; `on_text` gets the agent's texts as they arrive.

        `turn_index` counts from 1 and becomes `created_at_turn` of the session. `needs_handle` says whether a turn
        without the right session id is an error (None: in mode interactive).
        """
        self._contract, self._mode = contract, (mode := Mode(mode))
        self._turn_index, self._resumed = turn_index, resumed
        self._blame = Failure.ENGINE_FAILED if resumed is None else Failure.SESSION_RESUME_FAILED
        self._framers: dict[Stream, Framer] = {name: framer(contract.stream(name)) for name in STREAMS}
        self._tails: dict[Stream, bytearray] = {name: bytearray() for name in STREAMS}
        self._handle = HandleFinder(contract.handle)
        self._needs_handle = mode is Mode.INTERACTIVE if needs_handle is None else needs_handle
        self._on_text = on_text and (lambda text: None if self._question else on_text(text))
        self._failures: list[str] = []
        self._reported = dict[Reported, None]()
        self._answer = FinalText()
        # the census up to the first record that proves the end, and all later proofs
        self._until_end: Counter[str] | None = None
        self._end_at: int | None = None
        self._last_word: tuple[Stream, int] | None = None
        self._question: _Question | None = None
        # what was lost before an end, and may be a question
        self._lost = ""
        # the answer that is no question, as far as it was there at an end
        self._looked_at: str | None = None
        for name in STREAMS:
            if contract.stream(name).framing == "ndjson":
                self._framers[name].problems.on_loss = self._answer.lose
        self._rules = RuleWatches(contract)
        self._watches = {name: self._watch(name) for name in STREAMS}

    @classmethod
    def for_turn(
        cls,
        turn: Invocation,
        *,
        turn_index: int = 1,
        needs_handle: bool | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Self:
        """Return a reader for a turn, with its contract, its mode and the session that it resumes."""
        return cls(
            turn.contract,
            turn.mode,
            turn_index=turn_index,
            resumed=turn.resumed,
            needs_handle=needs_handle,
            on_text=on_text,
        )

    def feed(self, stream: Stream, chunk: bytes) -> None:
        """Take the next bytes of one stream (`stdout`, `stderr`), in chunks of any size."""
        if stream == "stderr" or stream != self._contract.handle.stream:
            tail = self._tails[stream]
            tail += chunk[-MAX_STDERR:]
            del tail[:-MAX_STDERR]
        see, feed = self._watches[stream].see, self._framers[stream].feed
        # a recording comes whole: its records are taken a part at a time
        for at in range(0, len(chunk), PART):
            see(feed(chunk[at : at + PART]))
            self._answer.join()

    @property
    def over(self) -> bool:
        """Whether the last record so far ends the turn, successfully or not, so the engine has nothing left to do.

        A question ends it for good.
        """
        if self._question is not None:
            return True
        if self._last_word is not None:
            stream, index = self._last_word
            is_last = self._watches[stream].count == index + 1
            return is_last or (self._until_end is not None and not self._after_end())
        return any(self._is_last_word(name, whole) for name in STREAMS if (whole := self._framers[name].whole()))

    def finish(self, exit_code: int | None, *, ended: Ended = Ended.EXIT, started: bool = True) -> TurnReading:
        """Judge the turn once the process has ended; `exit_code` None means that it was not reaped.

        A process that lingered was terminated after its turn, so its exit code says nothing about the turn. `started`
        says whether there was a process, or a stop came first.
        """
        for stream in STREAMS:
            self._watches[stream].see(self._framers[stream].finish())
        self._lost = self._lost or self._answer.lost
        contract, unmatched = self._contract, self._rules.unmatched(self._watches)
        asked = self._question
        handle = self._handle_reading(unmatched.get("handle"))
        of_turn = self._without_own_turns(handle)
        final = asked.text if asked else self._final_text()
        stderr = self._tails["stderr"].decode("utf-8", "replace")
        census = self._watches[contract.events.stream].census
        wrong = self._failure(of_turn, exit_code, ended, unmatched.get("end"))
        if not started:
            wrong = f"{Failure.TURN_TIMEOUT}: the engine was not started, because the turn was stopped before"
        killed = ended is not Ended.EXIT or exit_code is None or exit_code < 0
        session = None
        if of_turn.value is not None:
            session = EngineSessionHandle(contract.engine, contract.handle.handle_type, of_turn.value, self._turn_index)
        return TurnReading(
            result=AdapterTurnResult(Outcome.ERROR, stderr=stderr, failure_reason=wrong)
            if wrong
            else read_answer(final, self._mode, stderr, unmatched.get("final", "")),
            session=session,
            handle=handle,
            final_text=final,
            ended=self._until_end is not None,
            failures=tuple(self._failures),
            framing=tuple(f"{name}: {what}" for name in STREAMS for what in self._framers[name].problems.first),
            census=census,
            unknown=tuple(sorted(set(census) - set(contract.events.names))),
            unmatched=unmatched,
            after_end=self._after_end(),
            crlf=tuple(name for name in STREAMS if self._framers[name].has_crlf),
            reported=(
                *(session_caveats(contract, failed=wrong is not None, killed=killed) if started else ()),
                *(one for one in self._reported if one.kind != "answer" or final is None),
            )[:MAX_REPORTED],
        )

    def _watch(self, stream: Stream) -> RecordDispatch:
        """Register the observers of a stream's records."""
        contract = self._contract
        place, final = contract.handle, contract.final
        repeated = self._handle.repeated if stream == place.stream else None
        # an id that every record must hold is also expected in records that don't match
        match = None if place.record == "every" else place.match
        looks = [] if repeated else [RecordHandler(match, partial(self._handle.see, stream))]
        looks += [
            RecordHandler(sign.match, partial(self._fail, sign)) for sign in contract.failures if sign.stream == stream
        ]
        looks += [
            RecordHandler(sign.match, partial(self._report, sign)) for sign in contract.reports if sign.stream == stream
        ]
        if contract.end.stream == stream:
            looks.append(RecordHandler(contract.end.match, self._end))
        if final.stream == stream and final.field:
            looks.append(RecordHandler(final.match, self._answer.observer(final.field, final.group, self._on_text)))
        if final.stream == stream and final.begins_after:
            looks.append(RecordHandler(final.begins_after, self._answer.begin))
        if contract.end.stream == stream and self._mode is Mode.INTERACTIVE:
            # after the text, which may be in the same record
            looks.append(RecordHandler(contract.end.match, self._end_with_question))
        looks += self._rules.handlers(stream)
        counted = stream in (contract.events.stream, contract.end.stream)
        return RecordDispatch(looks, contract.events.field, counted=counted, repeated=repeated)

    def _is_last_word(self, stream: Stream, record: Record) -> bool:
        """Return whether the one record of a stream ends the turn, successfully or not."""
        contract = self._contract
        well = contract.end.stream == stream and matches(record, contract.end.match)
        return well or any(
            matches(record, sign.match) and _has(record, sign) for sign in contract.failures if sign.stream == stream
        )

    def _report(self, sign: ReportSign, record: Record, _index: int) -> None:
        """Note what a record reports beside the answer, unless a question has ended the turn."""
        found = value_at(record, sign.field)
        for one in found if isinstance(found, list) else (found,):
            text = value_at(one, sign.item) if sign.item else one
            is_new = self._question is None and len(self._reported) < MAX_REPORTED
            if is_new and isinstance(text, str) and not is_blank(text):
                self._reported[Reported(sign.kind, text[:MAX_REPORT])] = None

    def _end(self, record: Record, index: int) -> None:
        stream = self._contract.end.stream
        self._last_word = (stream, index)
        if self._until_end is None:
            self._until_end, self._end_at = Counter(self._watches[stream].census), index
        else:
            self._until_end.update(self._watches[stream].kinds(record))

    def _end_with_question(self, record: Record, index: int) -> None:
        """Keep the question that the agent asked before this proof of the end, if it is the first."""
        if self._question is not None or self._failures or self._lost:
            return
        text, end, self._lost = self._answer.text, self._contract.end, self._answer.lost
        if text is None or text == self._looked_at:
            return
        self._looked_at = text
        envelope = read_envelope(text)
        if isinstance(envelope, Envelope) and envelope.interaction:
            watch, place = self._watches[end.stream], self._contract.handle.stream
            handle = self._handle.reading(index + 1 if place == end.stream else self._watches[place].count)
            expected = frozenset((*watch.kinds(record), *end.followed_by))
            self._question = _Question(text, handle, Counter(watch.census), expected)

    def _without_own_turns(self, handle: HandleReading) -> HandleReading:
        """Return the id as it was when a question ended the turn; what came later is for diagnosis only.

        Another stream's ids count all the same, since the interleaving of the two streams carries no information.
        """
        asked, stream = self._question, self._contract.handle.stream
        if asked is None or asked.handle.value is None or any(seen.stream != stream for seen in handle.occurrences):
            return handle
        return asked.handle

    @property
    def _went_on(self) -> bool:
        """Whether the engine began another turn after its question, to which its exit code then belongs."""
        if self._question is None:
            return False
        later = Counter(self._watches[self._contract.end.stream].census) - self._question.census
        return not later.keys() <= self._question.expected

    def _after_end(self) -> tuple[str, ...]:
        """Return the unexpected kinds of records after the first that proves the end; a repeated proof is none."""
        if self._until_end is None:
            return ()
        end = self._contract.end
        later = Counter(self._watches[end.stream].census) - self._until_end
        return tuple(sorted(set(later) - set(end.followed_by)))

    def _fail(self, sign: FailureSign, record: Record, index: int) -> None:
        if self._question is not None or not _has(record, sign):
            return
        self._last_word = (sign.stream, index)
        message = value_at(record, sign.message) if sign.message else None
        if len(self._failures) < MAX_FAILURES:
            unknown = f"no reason given{_without(record, sign.message)}"
            self._failures.append(excerpt(message)[:MAX_REASON] if message is not None else unknown)

    def _final_text(self) -> str | None:
        """Return the agent's last text, None if it is blank; if that is the whole stream, pass it to `on_text` now."""
        final = self._contract.final
        is_whole = self._contract.stream(final.stream).framing == "text"
        text = self._framers[final.stream].text if is_whole else self._answer.text
        if is_blank(text) or self._lost:
            return None
        if is_whole and self._on_text and text is not None:
            self._on_text(text)
        return text

    def _handle_reading(self, unmatched: str | None) -> HandleReading:
        """Check the other stream too if the expected one has no id, to tell a moved id from a missing one."""
        place = self._contract.handle
        count, end = (
            self._watches[place.stream].count,
            self._end_at if self._contract.end.stream == place.stream else None,
        )
        reading = self._handle.reading(count, unmatched, end)
        other: Stream = "stderr" if place.stream == "stdout" else "stdout"
        expected, elsewhere = self._contract.stream(place.stream), self._contract.stream(other)
        if reading.occurrences or (elsewhere.framing, elsewhere.records) == (expected.framing, expected.records):
            return reading
        strayed = framer(expected)
        for index, record in enumerate((*strayed.feed(bytes(self._tails[other])), *strayed.finish())):
            if matches(record, place.match):
                self._handle.see(other, record, index)
        return self._handle.reading(count, unmatched, end)

    def _failure(self, handle: HandleReading, exit_code: int | None, ended: Ended, no_end: str | None) -> str | None:
        """Return why the turn is an error, in the order of "Which code names a failed turn" in docs/api.md."""
        lost, blame = Failure.SESSION_RESUME_FAILED, self._blame
        reason = f": {self._failures[0]}" if self._failures else ""
        reasons = (
            (ended is Ended.TIMEOUT, Failure.TURN_TIMEOUT, "the engine was still running at its deadline"),
            (ended is Ended.STOPPED, Failure.TURN_TIMEOUT, "the engine was stopped while it was still running"),
            (
                exit_code != 0 and ended is not Ended.LINGERED and not self._went_on,
                blame,
                f"the engine {how_it_ended(exit_code)}{reason}",
            ),
            (bool(reason), blame, f"the engine reported a failure{reason}"),
            (self._needs_handle and handle.value is None, lost, f"no session id ({handle.problem}): {handle.detail}"),
            (
                self._needs_handle and self._resumed not in (None, handle.value),
                lost,
                f"asked for {self._resumed}, came back as {handle.value}",
            ),
            (
                self._until_end is None,
                blame,
                f"nothing on {self._contract.end.stream} proves that the turn ended{f': {no_end}' if no_end else ''}",
            ),
            (
                bool(self._lost) and self._question is None,
                Failure.ENGINE_FAILED,
                f"a record of its output can't be read: {self._lost}",
            ),
        )
        return next((f"{code}: {detail}" for holds, code, detail in reasons if holds), None)


def session_caveats(contract: EngineContract, *, failed: bool, killed: bool) -> tuple[Reported, ...]:
    """Return what later turns of a session may lack after a turn that failed or whose engine was killed."""
    clause = "resume.after-kill" if killed else "resume.after-failure" if failed else None
    lacks = (_MAY_LACK.get(known.symptom) for known in contract.deviations if known.clause == clause)
    how = "was killed in this turn" if killed else "failed in this turn"
    texts = dict.fromkeys(f"{contract.title} {how}, so the session may lack {lack}" for lack in lacks if lack)
    return tuple(Reported("session", text) for text in texts)


def is_blank(text: str | None) -> bool:
    """Whether an agent's last text is missing, empty, or only white space, which is no answer."""
    return text is None or not text.strip()


def read_answer(text: str | None, mode: Mode, stderr: str = "", why: str = "") -> AdapterTurnResult:
    """Read the agent's last text of a successful turn; `why` says why it is missing."""
    if text is None or is_blank(text):
        detail = f"{NO_ANSWER}: {why}" if why else NO_ANSWER
        return AdapterTurnResult(Outcome.ERROR, stderr=stderr, failure_reason=f"{Failure.ENGINE_FAILED}: {detail}")
    envelope = read_envelope(text)
    if isinstance(envelope, Envelope):
        outcome = Outcome.ASK_USER if envelope.interaction else Outcome.FINAL
        return AdapterTurnResult(outcome, envelope.final_data, envelope.interaction, stderr, envelope.repair)
    if envelope is None and mode is Mode.AUTO:
        data = json_object(text)
        return AdapterTurnResult(Outcome.FINAL, {"text": text} if data is None else data, stderr=stderr)
    detail = envelope.detail if envelope else "the answer contains no envelope"
    return AdapterTurnResult(Outcome.ERROR, stderr=stderr, failure_reason=f"{Failure.ENVELOPE_INVALID}: {detail}")


def read_turn(
    contract: EngineContract,
    mode: Mode | ModeName,
    stdout: bytes,
    stderr: bytes,
    exit_code: int | None,
    *,
    turn_index: int = 1,
    resumed: str | None = None,
    ended: Ended = Ended.EXIT,
) -> TurnReading:
    """Read a turn from its complete streams, as in a recording.

    `exit_code` is negative for a signal, and None if the process was not reaped. The other parameters are those of
    `TurnReader` and its `finish`.

    >>> import json
    >>> codex = turngate.load_contract("codex", "0.169.0")
    >>> envelope = json.dumps({"outcome": "final", "final_data": {"colour": "blue"}})
    >>> events = [
    ...     {"type": "thread.started", "thread_id": "0198c6a1-6d70-7000-8000-000000000001"},
    ...     {"type": "item.completed", "item": {"type": "agent_message", "text": envelope}},
    ...     {"type": "turn.completed"},
    ... ]
    >>> stdout = "\\n".join(map(json.dumps, events)).encode()
    >>> reading = turngate.read_turn(codex, "interactive", stdout, b"", 0)
    >>> reading.result.final_data, reading.session.handle_value
    ({'colour': 'blue'}, '0198c6a1-6d70-7000-8000-000000000001')
    """
    reader = TurnReader(contract, mode, turn_index=turn_index, resumed=resumed)
    reader.feed("stdout", stdout)
    reader.feed("stderr", stderr)
    return reader.finish(exit_code, ended=ended)


def how_it_ended(exit_code: int | None) -> str:
    """Say how a process ended that did not exit with 0."""
    if exit_code is not None and exit_code < 0:
        return f"was killed by signal {-exit_code}"
    return f"exited with {exit_code}"


def _without(record: Record, path: str | None) -> str:
    """Return what is in the place of a path, as the end of a sentence."""
    obstacle = obstacle_at(record, path)[1] if path else ""
    return f"; {obstacle}" if obstacle else ""


def _has(record: Record, sign: FailureSign) -> bool:
    return sign.has is None or value_at(record, sign.has) is not None
