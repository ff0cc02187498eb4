"""The register of checks by clause, and what a check may return."""

import re
from collections.abc import Callable
from functools import wraps

from msgspec import Struct

from turngate import Ended
from turngate.contract.verdict import Finding
from turngate_probes.harness.observations import Observations, ServerCall, Turn

EXCERPT = 200
_WORD = re.compile(r"[A-Za-z]{2}")
_USAGE_ERROR = re.compile(r"(?i)\b(?:error|unknown|unexpected|unrecognized|invalid)\b")
_CLOSING = re.compile(r"</([^<>]+)>")
# what Node.js prints after a fatal error
_TRACE = re.compile(r"\s+at \S|Node\.js v\d")
_Judge = Callable[[Observations], Finding]
# a level checks these; the reference server adds no evidence for lower levels
LEVELS = {
    "static": ("static",),
    "hermetic": ("static", "hermetic"),
    "long": ("static", "hermetic", "long"),
    "live": ("hermetic", "live"),
    "server": ("server",),
    "gate": ("gate",),
}


class SkippedError(Exception):
    """The release lacks a feature; the text says which."""


class _FailedError(Exception):
    """Ends a check with this finding."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding


class Check(Struct, frozen=True):
    """A check and the cases that must run before it.

    `blames` are clauses about engine failures that keep a case from running. While they pass, this clause itself fails
    for it. The first of them is always checked with the clause, the others count only if they are checked.
    """

    cases: tuple[str, ...]
    run: Callable[[Observations], Finding]
    blames: tuple[str, ...] = ()


CHECKS: dict[str, Check] = {}


def check(clause_id: str, *cases: str, blames: tuple[str, ...] = ()) -> Callable[[_Judge], _Judge]:
    """Register a function as the check of a clause."""

    def register(function: _Judge) -> _Judge:
        @wraps(function)
        def judge(observed: Observations) -> Finding:
            try:
                return function(observed)
            except _FailedError as failure:
                return failure.finding

        CHECKS[clause_id] = Check(cases, judge, blames)
        return judge

    return register


def passed(detail: str, *evidence: Turn | ServerCall) -> Finding:
    """Return a pass, with these turns and calls as evidence."""
    return Finding(ok=True, detail=detail, evidence=_names(evidence))


def fail_if(condition: object, detail: str, *evidence: Turn | ServerCall, symptom: str = "") -> None:
    """Fail the clause if the condition is true, with these turns and calls as evidence.

    `symptom` is one that a deviation may excuse.
    """
    if condition:
        symptoms = (symptom,) if symptom else ()
        raise _FailedError(Finding(ok=False, detail=detail, symptoms=symptoms, evidence=_names(evidence)))


def _names(evidence: tuple[Turn | ServerCall, ...]) -> tuple[str, ...]:
    return tuple(item.name for item in evidence)


def how_it_ended(turn: Turn) -> str:
    """Describe how the process ended, with its first line about it."""
    if turn.hung:
        return f"still running after {turn.seconds:.0f} s{unread(turn)}"
    if turn.ended is Ended.LINGERED:
        return f"terminated after its terminal event, because it did not exit{unread(turn)}"
    message = turn.reading.failures[0] if turn.reading.failures else error_line(turn.stderr)
    return f"exit code {turn.exit_code}" + (f": {message[:EXCERPT]}" if message else "") + unread(turn)


def unmatched(turn: Turn, section: str) -> str:
    """Return the path of a section that matched no record of a turn, as the end of a detail."""
    named = turn.reading.unmatched.get(section)
    return f"; {named}" if named else ""


def unread(turn: Turn) -> str:
    """Return how much of a turn's output was dropped, as the end of a detail."""
    return f"; {turn.dropped} more bytes were dropped" if turn.dropped else ""


def went_well(turn: Turn) -> bool:
    """Return whether the turn ended properly: exit code 0 or none, no failure, and some output."""
    reading = turn.reading
    ended = reading.ended if turn.ended is Ended.LINGERED else turn.exit_code == 0
    # output that can't be read is for the clauses about it
    said_something = reading.ended or bool(turn.stdout.strip() or reading.handle.occurrences)
    return ended and not turn.hung and not reading.failures and said_something


def another_session(turn: Turn) -> bool:
    """Return whether a resumed turn reported an id, but not the requested one."""
    return turn.session is not None and turn.session != turn.resumed


def check_carried(turn: Turn, *earlier: Turn, where: str = "") -> None:
    """Check that a resumed turn sent its prompt together with the earlier turns; only another id is a fresh session."""
    unsent = f"{where}the prompt was not sent to the model ({how_it_ended(turn)})"
    fail_if(not turn.sent(), unsent, turn, symptom="refused")
    fresh = another_session(turn)
    lost = f"{where}earlier turns were not sent to the model, " + (
        f"in a fresh session {turn.session}" if fresh else "though no other session id came back"
    )
    fail_if(not turn.carries(*earlier), lost, turn, symptom="fresh-session" if fresh else "context-lost")


def error_line(stderr: bytes) -> str:
    """Return the line of standard error that says what went wrong: the last one, or that before a usage text."""
    lines = stderr.decode("utf-8", "replace").rstrip().splitlines()
    closing = _CLOSING.fullmatch(lines[-1]) if lines else None
    if closing and (opening := f"<{closing[1]}>") in lines:  # the block in which an engine prints its session
        del lines[-1 - lines[::-1].index(opening) :]
    messages = [line.strip() for line in lines if _WORD.search(line) and not _TRACE.match(line)]
    # a usage text follows the error that it belongs to, perhaps after a tip, or comes before it
    usage = next((i for i, line in enumerate(messages) if line.lower().startswith("usage")), 0)
    errors = [line for line in messages[:usage] if _USAGE_ERROR.search(line)]
    return next(iter(errors or messages[:usage][-1:] or messages[-1:]), "")
