"""Checks of stdout and stderr, on hand-made turns."""

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract import load
from turngate.model import Ended, Mode
from turngate.turn.read import read_turn
from turngate_probes.harness.observations import NotObservedError, Turn

GOOD = (t.turn("main/first"), t.resumed("main/again"), t.resumed("main/third"))
CLAUSES = [
    "stream.framing",
    "stream.known-events",
    "stream.line-ends",
    "stream.records-once",
    "turn.terminal-event",
]


@each("clause", CLAUSES)
def test_good_turns_pass(clause: str) -> None:
    """Three good turns pass every clause."""
    assert t.check(clause, *GOOD).ok


def test_a_turn_that_did_not_end_shows_no_framing() -> None:
    """Only turns that ended properly are judged; without one, the clause is not run."""
    banner = t.refused("main/again", stdout=b"Welcome!\n")
    assert t.check("stream.framing", GOOD[0], banner).ok
    with pytest.raises(NotObservedError, match=r"no turn ended properly .exit code 1"):
        t.check("stream.framing", t.refused("main/first"))
    with pytest.raises(NotObservedError, match=r"no turn ended properly .exit code 0"):
        t.check("stream.framing", t.refused("main/first", exit_code=0))


def test_a_turn_that_never_asked_the_model_has_not_ended_well() -> None:
    """A terminal event without a request that contains the prompt fails; a recording without requests passes."""
    finding = t.check("turn.terminal-event", t.turn("main/first", requests=()))
    assert not finding.ok
    assert "its prompt was not sent to the model" in finding.detail
    assert t.check("turn.terminal-event", t.turn("main/first", requests=None)).ok


def test_output_that_was_too_much_is_told() -> None:
    """A turn with dropped output passes with a note."""
    finding = t.check("stream.framing", GOOD[0], t.resumed("main/again", dropped=7))
    assert finding.ok
    assert finding.detail.endswith("bytes; 7 more bytes were dropped")


@pytest.mark.parametrize(
    "stdout",
    [b"Update available!\n" + t.printed(), t.printed() + b'{"type": "turn.comp', t.printed() + b"[1, 2]\n"],
    ids=["banner", "torn", "no object"],
)
def test_a_line_that_is_no_record_leaves_the_framing(stdout: bytes) -> None:
    """A banner, a torn line and a document that is no object fail, with the turn as evidence."""
    finding = t.check("stream.framing", GOOD[0], t.resumed("main/again", stdout=stdout))
    assert (finding.ok, finding.evidence) == (False, ("main/again",))


def test_more_than_the_agents_text_on_its_plain_stream_leaves_the_framing() -> None:
    """A banner on a plain-text stream fails, because it can't be told apart from the agent's text."""
    iflow = load.contract("iflow").at("0.5.19")
    info = f'<Execution Info>\n{{"session-id": "session-{t.SESSION}"}}\n</Execution Info>\n'.encode()

    def plain(stdout: bytes) -> Turn:
        reading = read_turn(iflow, Mode.INTERACTIVE, stdout, info, 0)
        return t.turn("main/first", stdout, stderr=info, scripted="Done.", reading=reading)

    assert t.check("stream.framing", plain(b"Done.\n"), contract=iflow).ok
    assert not t.check("stream.framing", plain(b"New version!\nDone.\n"), contract=iflow).ok


def test_an_unknown_event_is_told() -> None:
    """An unknown kind of record in any turn fails, and is named."""
    finding = t.check("stream.known-events", *GOOD, t.turn("auto/first", t.printed() + b'{"type":"turn.budgeted"}\n'))
    assert (finding.ok, finding.evidence) == (False, ("auto/first",))
    assert "turn.budgeted" in finding.detail


def test_all_unknown_events_of_all_turns_are_told_at_once() -> None:
    """The union of unknown kinds is named, with one turn as evidence for each kind."""
    budgeted, retried = b'{"type":"turn.budgeted"}\n', b'{"type":"turn.retried"}\n'
    turns = (
        t.turn("auto/first", t.printed() + budgeted),
        t.resumed("main/third", stdout=t.printed() + budgeted),
        t.turn("backend-401/first", budgeted + retried, exit_code=1),
    )
    finding = t.check("stream.known-events", *GOOD[:2], *turns)
    assert finding.detail == "unknown kinds of record: `turn.budgeted`, `turn.retried`"
    assert finding.evidence == ("auto/first", "backend-401/first")


def test_many_unknown_events_are_counted() -> None:
    """Of very many unknown kinds the first ones are named, the others counted."""
    many = b"".join(b'{"type":"k%03d"}\n' % number for number in range(45))
    detail = t.check("stream.known-events", *GOOD, t.turn("auto/first", t.printed() + many)).detail
    assert (detail.count("k0"), detail.endswith(", `k029` and 15 more")) == (30, True)


def test_a_path_that_matched_no_record_is_named() -> None:
    """The evidence names the path of the kind, and that of the terminal event."""
    codex = load.contract("codex").at("0.169.0")
    changed = replace(
        codex, events=replace(codex.events, field="event.0.type"), end=replace(codex.end, match={"event.0.type": "end"})
    )
    stdout = t.printed().replace(b'{"type"', b'{"event":[],"type"')
    turn = t.turn("main/first", stdout, reading=read_turn(changed, Mode.INTERACTIVE, stdout, b"", 0))
    path = f"`event.0.type` matched none of {stdout.count(bytes([10]))} records; `event` is a list"
    for clause in ("stream.known-events", "turn.terminal-event"):
        assert path in t.check(clause, turn, contract=changed).detail


def test_events_of_a_failing_turn_count() -> None:
    """Unknown kinds of records in failing turns count too."""
    failing = t.turn("backend-401/first", b'{"type":"turn.retried"}\n', exit_code=1)
    assert not t.check("stream.known-events", *GOOD, failing).ok


@pytest.mark.parametrize(
    "turn, detail",
    [
        (t.turn("main/first", t.printed(text=None)), "no terminal event"),
        (t.turn("main/first", exit_code=1), "a turn with a terminal event ended with exit code 1"),
        (t.turn("main/first", ended=Ended.TIMEOUT), "still running after 21 s"),
        (t.turn("main/first", t.printed() + t.printed(None, None, "late")), "went on after its terminal event"),
    ],
    ids=["cut short", "bad exit", "hang", "failure after the end"],
)
def test_a_turn_without_a_good_end_fails(turn: Turn, detail: str) -> None:
    """A good turn has a terminal event, exits with 0 by itself and reports no failure."""
    finding = t.check("turn.terminal-event", turn)
    assert not finding.ok
    assert detail in finding.detail


def test_a_turn_that_goes_on_after_its_end_fails() -> None:
    """Any record after the terminal event fails, unless the contract expects it there or it is that event again."""
    end = b'{"type":"turn.completed"}\n'
    late = t.turn("main/first", t.printed() + b'{"type":"item.completed"}\n')
    finding = t.check("turn.terminal-event", late)
    assert (finding.ok, finding.evidence) == (False, ("main/first",))
    assert finding.detail == "the turn went on after its terminal event: item.completed"
    assert t.check("turn.terminal-event", t.turn("main/first", t.printed() + end)).ok
    expecting = replace(t.CODEX, end=replace(t.CODEX.end, followed_by=("item.completed",)))
    reading = read_turn(expecting, Mode.INTERACTIVE, late.stdout, b"", 0)
    assert t.check("turn.terminal-event", replace(late, reading=reading), contract=expecting).ok


def test_lines_that_end_in_crlf_are_told() -> None:
    """CRLF on the stream of the records fails; on a stream that nobody reads it doesn't matter."""
    crlf = t.printed().replace(b"\n", b"\r\n")
    finding = t.check("stream.line-ends", GOOD[0], t.resumed("main/again", stdout=crlf))
    assert (finding.ok, finding.evidence) == (False, ("main/again",))
    assert finding.detail == "lines on stdout end in CRLF"
    assert t.check("stream.framing", t.turn("main/first", crlf)).ok
    assert t.check("stream.line-ends", t.turn("main/first", stderr=b"notice\r\n")).ok


TOOL = b'{"type":"item.completed","item":{"type":"command_execution","tool":"shell"}}\n'


@pytest.mark.parametrize(
    "stdout, repeats",
    [
        (t.printed().replace(b"\n", b"\n\n"), 0),
        (b'{"type":"turn.started"}\n' * 2 + t.printed(), 0),
        (t.printed() * 2, 1),
        (t.printed(text=None) + t.printed(None).replace(b'"item": {', b'"item": {"id": 1, ') + t.printed(None), 1),
        (TOOL + t.printed(), 0),
        (TOOL * 2 + t.printed(), 1),
    ],
    ids=["blank lines", "no text", "all", "another id", "tool", "tool twice"],
)
def test_a_text_or_tool_call_that_is_printed_twice_is_told(stdout: bytes, repeats: int) -> None:
    """The same text or tool call in two records fails, equal records without either don't."""
    called = (t.exchange("tgn-tool-call-first", reply="tool_call shell"), t.exchange("tgn-tool-call-first"))
    turn = t.turn("tool-call/first", stdout, requests=called)
    finding = t.check("stream.records-once", *GOOD, turn)
    assert (finding.ok, finding.evidence[-1]) == (not repeats, "tool-call/first")


def test_ids_of_different_homes_differ() -> None:
    """Two homes with the same session id fail with a symptom; a home without a session shows nothing."""
    firsts = [t.turn(f"{case}/first", t.printed(f"{t.SESSION[:-1]}{i}")) for i, case in enumerate(("main", "auto"))]
    other = t.turn("bad-handles/first", t.printed(t.ANOTHER))
    assert t.check("handle.unique", *firsts, other).ok
    finding = t.check("handle.unique", firsts[0], other, replace(firsts[1], reading=firsts[0].reading))
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("only-in-home",), ("main/first", "auto/first"))
    with pytest.raises(NotObservedError, match="only one home"):
        t.check("handle.unique", firsts[0], t.refused("bad-handles/first"), t.refused("auto/first"))


@each("clause", CLAUSES)
def test_without_turns_nothing_is_said(clause: str) -> None:
    """Without observed turns the clauses are not run."""
    with pytest.raises(NotObservedError):
        t.check(clause)
