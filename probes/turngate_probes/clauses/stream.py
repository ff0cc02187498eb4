"""Checks of what an engine prints: streams, the session id of a first turn, plain commands, a failing model backend."""

import json
import re
from collections import Counter
from collections.abc import Iterable

from turngate import Ended, EngineContract, Mode, TurnReader
from turngate.contract import versions
from turngate.contract.verdict import Finding
from turngate.turn.session_id import HandleProblem
from turngate_probes.clauses.checks import (
    EXCERPT,
    check,
    error_line,
    fail_if,
    how_it_ended,
    passed,
    unmatched,
    unread,
    went_well,
)
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import FAILING
from turngate_probes.harness.observations import NotObservedError, Observations, Turn

FIRST = "main/first"
# without them, a turn has no session id to resume
RESUMABLE = ("handle.present", "handle.place")
# not the imitation case, which has a separate clause
AGREEING = ("main", "bad-handles", "auto")
GOOD = ("main/first", "main/again", "main/third")
MOST = 30


@check("handle.present", "main")
def present(observed: Observations) -> Finding:
    """A record, on either stream, has the field that the contract names, with a value that can be passed on."""
    turn = observed.turn(FIRST)
    handle = turn.reading.handle
    is_lacking = handle.problem in (HandleProblem.MISSING, HandleProblem.UNSAFE)
    fail_if(is_lacking, f"{handle.detail} ({how_it_ended(turn)})", turn)
    return passed(f"{handle.occurrences[0].value}", turn)


@check("handle.place", *AGREEING)
def place(observed: Observations) -> Finding:
    """The id is on the right stream, in the right record, in every successful first turn.

    Without hooks and display settings of a user, no other record comes before the first, or beside the only one.
    """
    first = observed.turn(FIRST)
    begun = [
        turn for turn in observed.turns.values() if turn.case in AGREEING and turn.resumed is None and went_well(turn)
    ]
    for turn in (first, *begun):
        handle = turn.reading.handle
        fail_if(handle.problem is HandleProblem.PLACE, handle.detail, turn)
        fail_if(handle.displaced, handle.displaced, turn)
    return passed(first.reading.handle.detail, first)


@check("handle.shape", "main")
def shape(observed: Observations) -> Finding:
    """The id has the contract's shape."""
    turn = observed.turn(FIRST)
    fail_if(turn.reading.handle.unfamiliar, turn.reading.handle.unfamiliar, turn)
    return passed(f"matches {observed.contract.handle.shape}", turn)


@check("handle.unique", *AGREEING)
def unique(observed: Observations) -> Finding:
    """The first turns of several cases, each in a home of its own, have different ids."""
    turns = dict[str, Turn]()
    for turn in (observed.turn(f"{case}/first") for case in AGREEING):
        if turn.session is not None and went_well(turn):
            other = turns.setdefault(turn.session, turn)
            same = f"sessions in two homes have the id {turn.session}"
            fail_if(other is not turn, same, other, turn, symptom="only-in-home")
    if not tuple(turns)[1:]:
        raise NotObservedError("only one home has a session, so that nothing is shown", by_engine=True)
    return passed(f"{len(turns)} sessions in different homes have different ids", *turns.values())


@check("version.readable", "static")
def version_readable(observed: Observations) -> Finding:
    """The version query exits with 0, and its whole output matches the contract's pattern."""
    page, query = observed.page("static/version"), observed.contract.version_query
    printed = page.printed.on(query.stream).strip()
    misplaced = page.printed.misplaced(query.stream, re.compile(query.pattern).fullmatch)
    went_well = page.exit_code == 0 and page.ended is Ended.EXIT
    said = printed or error_line(page.stderr)
    fail_if(not went_well, f"the version query exited with {page.exit_code}: {said[:200]!r}")
    match = re.fullmatch(query.pattern, printed)
    fail_if(misplaced, misplaced)
    fail_if(not match, f"{printed[:200]!r} does not match {query.pattern}")
    version, wanted = match["version"] if match else "", observed.contract.version
    unusable = f"{version[:200]!r} is not a semantic version, so no contract claims can be selected for it"
    fail_if(not _is_version(version), unusable)
    fail_if(wanted is not None and version != wanted, f"it reports {version}, but is {wanted}")
    return passed(f"reports {version}")


@check("help.surface", "static", "listings")
def help_surface(observed: Observations) -> Finding:
    """Each help page contains, as whole words, every name that the contract expects there."""
    pages = {f"static/help-{i + 1}": page for i, page in enumerate(observed.contract.help.pages)}
    absent: list[str] = []
    for name, wanted in pages.items():
        page, command = observed.pages.get(name), " ".join(wanted.argv)
        if page is not None:
            fail_if(page.ended is not Ended.EXIT, f"{command} did not end by itself, so its text is not whole")
            misplaced = page.printed.misplaced(wanted.stream, wanted.is_complete)
            fail_if(misplaced, f"{command}: {misplaced}")
            absent += [f"{name} ({command})" for name in wanted.missing(page.printed.on(wanted.stream))]
    fail_if(absent, "missing: " + ", ".join(absent))
    for name in pages:
        observed.page(name)
    return passed(f"{sum(len(page.names) for page in observed.contract.help.pages)} names found")


def _is_version(text: str) -> bool:
    try:
        versions.parse(text)
    except ValueError:
        return False
    return True


@check("backend.failure-told", *FAILING)
def failure_told(observed: Observations) -> Finding:
    """The exit code reported each failing backend, in time.

    Symptoms are `hang-…`, `success-…` and, if an event reported the error, `exit-0-…`.
    """
    names = [f"{case}/first" for case in FAILING]
    turns = [observed.turns[name] for name in names if name in observed.turns]
    symptoms = {turn.name: symptom for turn in turns if (symptom := _symptom(turn))}
    declared = {d.symptom for d in observed.contract.deviations if d.clause == "backend.failure-told"}
    # recordings may lack some
    if declared.issuperset(symptoms.values()) and all(turn.requests is not None for turn in turns):
        turns = [observed.turn(name) for name in names]
    turns.sort(key=lambda turn: turn.name not in symptoms)  # what went wrong first
    reported = "; ".join(f"{_kind(turn)}: {how_it_ended(turn)}" for turn in turns)
    return Finding(not symptoms, reported, tuple(symptoms.values()), tuple(turn.name for turn in turns))


def _symptom(turn: Turn) -> str | None:
    if turn.hung:
        return f"hang-{_kind(turn)}"
    if turn.ended is Ended.LINGERED:
        return None if turn.reading.failures else f"success-{_kind(turn)}"
    if turn.exit_code == 0:
        return f"exit-0-{_kind(turn)}" if turn.reading.failures else f"success-{_kind(turn)}"
    return None


def _kind(turn: Turn) -> str:
    return turn.case.removeprefix("backend-")


@check("stream.framing", "main")
def framing(observed: Observations) -> Finding:
    """The output of every successful turn followed its framing, and was not cut off."""
    turns = _good_turns(observed)
    for turn in turns:
        fail_if(turn.reading.framing, "".join(turn.reading.framing[:1]), turn)
        fail_if(_holds_more_text(turn, observed), "the stream for the agent's text contains more than that text", turn)
    reported = f"{len(turns)} turns, {sum(len(t.stdout) + len(t.stderr) for t in turns)} bytes"
    return passed(reported + next(filter(None, map(unread, turns)), ""), *turns)


@check("stream.line-ends", "main")
def line_ends(observed: Observations) -> Finding:
    """No line of a stream that holds records or the answer ended in CRLF."""
    contract, turns = observed.contract, _good_turns(observed)
    read = {contract.handle.stream, contract.events.stream, contract.final.stream}
    for turn in turns:
        ending = [stream for stream in turn.reading.crlf if stream in read]
        fail_if(ending, f"lines on {' and '.join(ending)} end in CRLF", turn)
    return passed(f"{len(turns)} turns", *turns)


@check("stream.records-once", "main", "tool-call", blames=("turn.terminal-event",))
def records_once(observed: Observations) -> Finding:
    """No turn that ended properly printed a text of the agent, or a record with one or with a tool call, twice."""
    turns = [turn for turn in observed.turns.values() if turn.case in ("main", "tool-call") and went_well(turn)]
    if all(turn.reading.final_text is None for turn in turns):
        why = how_it_ended(observed.turn(GOOD[0]))
        raise NotObservedError(f"no turn ended properly with a text of the agent ({why})", by_engine=True)
    for turn in turns:
        repeated = _repeated(turn, observed.contract)
        fail_if(repeated, f"printed more than once: {repeated[:EXCERPT]}", turn)
    return passed(f"{len(turns)} turns", *turns)


@check("stream.known-events", EVERYTHING, blames=("turn.terminal-event",))
def known_events(observed: Observations) -> Finding:
    """No turn printed a kind of record that the contract doesn't know."""
    turns = [turn for turn in observed.turns.values() if turn.reading.unknown]
    unknown = sorted({kind for turn in turns for kind in turn.reading.unknown})
    more = f" and {len(unknown) - MOST} more" if len(unknown) > MOST else ""
    path = next(filter(None, (unmatched(turn, "events") for turn in turns)), "")
    named = ", ".join(f"`{kind}`" for kind in unknown[:MOST])
    fail_if(unknown, f"unknown kind{'s' * (len(unknown) > 1)} of record: {named}{more}{path}", *_showing(turns))
    kinds = sorted({kind for turn in observed.turns.values() for kind in turn.reading.census})
    if not kinds:
        turn = observed.turn("main/first")
        raise NotObservedError(f"no turn printed a record ({how_it_ended(turn)})", by_engine=True)
    return passed("seen: " + ", ".join(kinds))


@check("turn.terminal-event", "main")
def terminal_event(observed: Observations) -> Finding:
    """The first turn, and each resumed one that did not fail, sent its prompt and ended with its terminal event.

    Nothing came after that event but what the contract expects there.
    """
    first, *more = _turns(observed)
    # the clauses about resuming report a resumed turn that failed
    turns = [first, *(turn for turn in more if turn.exit_code == 0 and not turn.reading.failures)]
    for turn in turns:
        fail_if(not turn.reading.ended, f"no terminal event ({how_it_ended(turn)}){unmatched(turn, 'end')}", turn)
        fail_if(not went_well(turn), f"a turn with a terminal event ended with {how_it_ended(turn)}", turn)
        later = turn.reading.after_end
        fail_if(later, f"the turn went on after its terminal event: {', '.join(later)}"[:EXCERPT], turn)
        unasked = turn.requests is not None and not turn.sent()
        fail_if(unasked, f"the turn ended, but its prompt was not sent to the model ({how_it_ended(turn)})", turn)
    return passed(f"{len(turns)} turns", *turns)


def _showing(turns: list[Turn]) -> list[Turn]:
    """Return the turns that show a kind that no turn before them shows."""
    evidence = set[str]()
    news: list[Turn] = []
    for turn in turns:
        if not evidence.issuperset(turn.reading.unknown):
            news.append(turn)
            evidence.update(turn.reading.unknown)
    return news


def _holds_more_text(turn: Turn, observed: Observations) -> bool:
    final = observed.contract.final
    plain = observed.contract.stream(final.stream).framing == "text"
    return plain and turn.scripted != "" and (turn.reading.final_text or "").strip() != turn.scripted.strip()


def _repeated(turn: Turn, contract: EngineContract) -> str:
    """Return a text of the agent that came twice, or else a line with its text or a tool call; empty: none did."""
    texts = list[str]()
    # in mode interactive, no text counts after a question
    reader = TurnReader(contract, Mode.AUTO, on_text=texts.append)
    reader.feed("stdout", turn.stdout)
    reader.feed("stderr", turn.stderr)
    reader.finish(turn.exit_code)
    if again := _twice(filter(None, texts)):
        return again
    if contract.stream(contract.events.stream).framing != "ndjson":
        return ""
    printed = turn.stdout if contract.events.stream == "stdout" else turn.stderr
    called = [
        request.reply.removeprefix("tool_call ")
        for request in turn.requests or ()
        if request.reply.startswith("tool_call ")
    ]
    signs = [json.dumps(turn.scripted)[1:-1], *(f'"{tool}"' for tool in called)]
    lines = printed.decode("utf-8", "replace").split("\n")
    return _twice(line for line in lines if any(sign in line for sign in signs if sign))


def _twice(texts: Iterable[str]) -> str:
    return next((text for text, count in Counter(texts).items() if count > 1), "")


def _good_turns(observed: Observations) -> list[Turn]:
    """Return the turns of the main case that ended properly; NotObservedError if there are none."""
    turns = [turn for turn in _turns(observed) if went_well(turn)]
    if not turns:
        raise NotObservedError(f"no turn ended properly ({how_it_ended(observed.turn(GOOD[0]))})", by_engine=True)
    return turns


def _turns(observed: Observations) -> list[Turn]:
    turns = [observed.turns[name] for name in GOOD if name in observed.turns]
    return turns or [observed.turn(GOOD[0])]
