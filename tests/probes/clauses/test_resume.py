"""Checks of resuming, on hand-made turns."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.verdict import Finding
from turngate.model import Ended
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.cases import LONG_SESSION
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.stub_model import Exchange

FIRST = t.turn("main/first")
AGAIN = t.resumed("main/again", "main/first")
A_FIRST = t.turn("later-minute/a-first")
A_AGAIN = t.resumed("later-minute/a-again", "later-minute/a-first")
A_THIRD = t.resumed("later-minute/a-third", "later-minute/a-first", "later-minute/a-again")
B_FIRST = t.turn("later-minute/b-first", t.printed(t.ANOTHER))
B_AGAIN = t.resumed("later-minute/b-again", "later-minute/b-first", stdout=t.printed(t.ANOTHER), resumed=t.ANOTHER)
BOTH = (A_FIRST, A_AGAIN, B_FIRST, A_THIRD, B_AGAIN)


def main(clause: str, again: Turn, *more: Turn) -> Finding:
    """Check the main case with this second turn."""
    return t.check(clause, FIRST, again, *more)


def with_(turn: Turn) -> tuple[Turn, ...]:
    """Return the turns of both sessions, with one replaced."""
    return tuple(turn if kept_turn.name == turn.name else kept_turn for kept_turn in BOTH)


@pytest.mark.parametrize("clause", ["resume.accepted", "resume.same-handle", "resume.context-carried"])
def test_a_good_resume_passes(clause: str) -> None:
    """A resumed turn with the same id and the first turn's nonce in its request passes."""
    assert main(clause, AGAIN).ok


@each(
    "changes, detail",
    [
        ({"stdout": b"", "stderr": b"error: unexpected argument '--cd'\n", "exit_code": 2}, "exit code 2: error: unex"),
        ({"stdout": t.printed(failure="no provider")}, "no provider"),
        ({"ended": Ended.TIMEOUT}, "still running after 21 s"),
        ({"requests": ()}, "the prompt was not sent"),
        ({"requests": (t.exchange("tgn-main-first"),)}, "the prompt was not sent"),
        ({"requests": (t.exchange(t.nonce("main/again"), model="default"),)}, "the model option was lost"),
    ],
)
def test_a_resume_that_runs_no_turn_is_not_accepted(changes: dict[str, Any], detail: str) -> None:
    """A refusal, a failure, a hang, an unsent prompt and a lost option fail, and the detail names the cause."""
    finding = main("resume.accepted", t.resumed("main/again", "main/first", **changes))
    assert not finding.ok
    assert detail in finding.detail


def replied(step: str, *texts: str, session: str = t.SESSION) -> Turn:
    """Return a resumed turn with the prompt "yes", and these texts of the user in its request."""
    requests = (t.exchange(texts=texts),) if texts else ()
    return t.resumed(f"main/{step}", stdout=t.printed(session), prompt="yes", nonce="", requests=requests)


@pytest.mark.parametrize(
    "turns, evidence",
    [
        ((replied("same", "Ask.", "yes"), replied("same-again", "Ask.", "yes", "yes")), ""),
        ((replied("same", "yes"), replied("same-again", "yes", session=t.ANOTHER)), ""),
        ((replied("same", "yes"), replied("same-again")), "main/same-again"),
        ((replied("same", "Ask.", "yes"), replied("same-again", "Ask.", "yes")), "main/same main/same-again"),
        ((replied("same"),), "main/same"),
    ],
    ids=["both", "forked", "cached", "dropped", "first alone"],
)
def test_equal_replies_each_reach_the_model(turns: tuple[Turn, ...], evidence: str) -> None:
    """A second reply that equals the first must be sent, too; a failing first turn counts without the second."""
    finding = t.check("resume.equal-replies", *turns)
    assert (finding.ok, " ".join(() if finding.ok else finding.evidence)) == (not evidence, evidence)


def test_a_recorded_resume_is_accepted_by_its_exit() -> None:
    """Without recorded requests, a good exit is enough."""
    assert main("resume.accepted", t.resumed("main/again", requests=None)).ok


@pytest.mark.parametrize("says, symptoms", [(t.ANOTHER, ("new-handle",)), (None, ())])
def test_another_id_is_not_the_same(says: str | None, symptoms: tuple[str, ...]) -> None:
    """A changed or missing id fails; only one that came back is a new handle."""
    finding = main("resume.same-handle", t.resumed("main/again", "main/first", stdout=t.printed(says)))
    assert (finding.ok, finding.symptoms) == (False, symptoms)


def test_a_model_that_was_never_asked_for_is_not_lost() -> None:
    """If the first turn sent no prompt, nothing shows that the resume has lost its model."""
    with pytest.raises(NotObservedError, match="its model is unknown"):
        t.check("resume.accepted", t.turn("main/first", requests=()), AGAIN)


@pytest.mark.parametrize(
    "requests",
    [
        (t.exchange(t.nonce("main/again")),),
        (t.exchange(t.nonce("main/again")), t.exchange(t.nonce("main/first"))),
        (),
    ],
    ids=["forgotten", "in another request", "no request"],
)
def test_context_that_is_not_sent_is_not_carried(requests: tuple[Any, ...]) -> None:
    """One request must contain both nonces, whatever the id and the exit code are."""
    finding = main("resume.context-carried", t.resumed("main/again", requests=requests))
    assert (finding.ok, finding.evidence) == (False, ("main/first", "main/again"))


def test_context_of_a_recording_is_unknown() -> None:
    """Without recorded requests the clause is not run."""
    with pytest.raises(NotObservedError, match="has no requests"):
        main("resume.context-carried", t.resumed("main/again", requests=None))


def test_a_second_resume_passes() -> None:
    """A third turn with the same id and both earlier nonces passes."""
    assert main("resume.repeated", AGAIN, t.resumed("main/third", "main/first", "main/again")).ok


@pytest.mark.parametrize(
    "third, symptoms",
    [
        (t.resumed("main/third", "main/first"), ()),
        (t.resumed("main/third", "main/again"), ()),
        (t.refused("main/third"), ()),
        (t.resumed("main/third", "main/first", "main/again", stdout=t.printed(t.ANOTHER)), ("new-handle",)),
        (t.resumed("main/third", "main/first", "main/again", stdout=t.printed(None)), ()),
    ],
    ids=["forgot the second", "forgot the first", "refused", "another id", "no id"],
)
def test_a_second_resume_that_lost_something_fails(third: Turn, symptoms: tuple[str, ...]) -> None:
    """A third turn that lost context, was refused or changed the id fails."""
    finding = main("resume.repeated", AGAIN, third)
    assert (finding.ok, finding.symptoms) == (False, symptoms)


@pytest.mark.parametrize(
    "elsewhere, symptoms",
    [
        (t.resumed("main/elsewhere", "main/first"), None),
        (t.resumed("main/elsewhere", stdout=t.printed(t.ANOTHER)), ("fresh-session",)),
        (t.resumed("main/elsewhere"), ("context-lost",)),
        (t.resumed("main/elsewhere", stdout=t.printed(None)), ("context-lost",)),
        (t.refused("main/elsewhere"), ("refused",)),
        (t.refused("main/elsewhere", stderr=b"Fork this session? [y/N] Aborted.", exit_code=0), ("refused",)),
        (t.resumed("main/elsewhere", requests=()), ("refused",)),
        (t.hung("main/elsewhere"), ("hang",)),
    ],
    ids=["resumed", "fresh", "same id", "no id", "refused", "aborted with exit code 0", "sent nothing", "hung"],
)
def test_resuming_elsewhere_is_told_by_its_symptom(elsewhere: Turn, symptoms: tuple[str, ...] | None) -> None:
    """Resuming in another directory works, or fails with a symptom; only another id is a fresh session."""
    finding = main("resume.other-cwd", AGAIN, elsewhere)
    assert (finding.ok, finding.symptoms) == (symptoms is None, symptoms or ())


@pytest.mark.parametrize("clause", ["resume.later-minute", "resume.isolation"])
def test_two_good_sessions_pass(clause: str) -> None:
    """Two sessions that each contain only their own turns pass."""
    assert t.check(clause, *BOTH).ok


@each(
    "turn, symptom",
    [
        (t.resumed(A_AGAIN.name), "lost-at-once"),
        (t.refused(A_AGAIN.name), "lost-at-once"),
        (t.resumed(A_THIRD.name, A_FIRST.name), "lost-after-another"),
        (t.resumed(A_THIRD.name, B_FIRST.name), "lost-after-another"),
        (t.refused(A_THIRD.name), "lost-after-another"),
        (t.hung(A_AGAIN.name), "hang"),
        (t.hung(A_THIRD.name), "hang"),
    ],
)
def test_a_session_lost_in_a_later_minute_is_told_when(turn: Turn, symptom: str) -> None:
    """The symptom says whether the session was lost at once or after the other session's turn."""
    finding = t.check("resume.later-minute", *with_(turn))
    assert (finding.ok, finding.symptoms) == (False, (symptom,))


@pytest.mark.parametrize(
    "turn",
    [
        t.resumed(A_THIRD.name, A_FIRST.name, A_AGAIN.name, B_FIRST.name),
        t.resumed(B_AGAIN.name, A_FIRST.name, stdout=t.printed(t.ANOTHER)),
        t.turn(B_FIRST.name),
    ],
    ids=["B in A", "A in B", "same id"],
)
def test_sessions_that_mix_are_not_isolated(turn: Turn) -> None:
    """Another session's nonce in a request, or one id for both sessions, fails."""
    assert not t.check("resume.isolation", *with_(turn)).ok


def test_a_request_that_only_names_another_conversation_mixes_nothing() -> None:
    """It carries no prompt of the turn in which it is sent, as in Claude Code 2.0.12."""
    naming = t.turn(A_FIRST.name).watched
    turn = replace(B_AGAIN, requests=(*B_AGAIN.watched, *naming))
    assert t.check("resume.isolation", *with_(turn)).ok


def test_a_turn_that_sent_nothing_shows_no_isolation() -> None:
    """If the second session was not resumed, the clause is not run; another silent turn is named."""
    with pytest.raises(NotObservedError, match=r"was not resumed.*exit code 1: Error: no such thing"):
        t.check("resume.isolation", *with_(t.refused(B_AGAIN.name)))
    finding = t.check("resume.isolation", *with_(t.refused(A_THIRD.name)))
    assert (finding.ok, A_THIRD.name in finding.evidence) == (True, False)
    assert finding.detail == f"4 turns of two sessions; not shown by {A_THIRD.name}, which sent no prompt"


def test_ids_that_are_both_missing_are_not_the_same() -> None:
    """Two sessions without an id don't count as one session."""
    turns = [replace(turn, reading=t.turn("x", t.printed(None)).reading) for turn in (A_FIRST, B_FIRST)]
    assert t.check("resume.isolation", A_AGAIN, A_THIRD, B_AGAIN, *turns).ok


BAD_HANDLES = {"resume.dead-handle": "bad-handles/dead", "resume.malformed-handle": "bad-handles/malformed"}


@pytest.mark.parametrize("clause, name", BAD_HANDLES.items())
def test_a_loud_refusal_passes(clause: str, name: str) -> None:
    """A bad exit code without a request to the model passes."""
    assert t.check(clause, t.refused(name)).ok


@pytest.mark.parametrize("clause, name", BAD_HANDLES.items())
def test_a_bad_handle_that_is_taken_is_told_by_its_symptom(clause: str, name: str) -> None:
    """Each wrong reaction to a bad session id has its own symptom."""
    played = {
        "fresh-session": t.resumed(name, resumed=t.CODEX.handle.nonexistent_id),
        "quiet": t.resumed(name),
        "exit-0": t.refused(name, stdout=t.printed(None, None, "no session"), exit_code=0),
        "late": t.refused(name, requests=(t.exchange(t.nonce(name)),)),
        "hang": t.hung(name),
    }
    silent = t.check(clause, t.refused(name, stderr=b"", exit_code=0))
    assert (silent.ok, silent.symptoms) == (False, ("quiet",))
    findings = {symptom: t.check(clause, turn) for symptom, turn in played.items()}
    assert {symptom: (finding.ok, finding.symptoms) for symptom, finding in findings.items()} == {
        symptom: (False, (symptom,)) for symptom in played
    }


def recalled(answer: str | None) -> Finding:
    """Check this answer of the resumed turn."""
    first = t.turn("main/first", requests=None)
    return t.check("live.context-recalled", first, t.resumed("main/again", stdout=t.printed(text=answer)))


@pytest.mark.parametrize("answer", ["{word}", "The word is **{word}**.", "{word}\n"])
def test_a_word_that_is_given_back_passes(answer: str) -> None:
    """An answer that contains the word passes, in any case and with text around it."""
    assert recalled(answer.format(word=t.nonce("main/first"))).ok
    assert recalled(answer.format(word=t.nonce("main/first").upper())).ok


@pytest.mark.parametrize("answer", ["I do not know.", "", None, "tgn-main-firstling"])
def test_any_other_answer_fails(answer: str | None) -> None:
    """An answer without the word fails, and the detail shows it."""
    finding = recalled(answer)
    assert not finding.ok
    assert not answer or answer in finding.detail


def long_session(broken: int = 0, **changes: Any) -> Finding:
    """Check a session of 50 turns, one of which has these changes."""
    names = [f"long-session/turn-{index}" for index in range(1, LONG_SESSION + 1)]
    turns = [t.turn(names[0])]
    for index, name in enumerate(names[1:], 2):
        about = changes if index == broken else {}
        turns.append(t.resumed(name, *names[: index - 1], **{"seconds": index / 10, "cpu_seconds": 0.2, **about}))
    return t.check("resume.long-session", *turns)


def test_a_long_session_tells_how_long_its_turns_take() -> None:
    """Fifty turns pass, and the detail compares the last one with the first resume."""
    finding = long_session()
    assert finding.ok
    assert "turn 2 took 0.2 s, turn 50 5.0 s (0.2 and 0.2 s of CPU time)" in finding.detail
    assert finding.evidence == tuple(f"long-session/turn-{index}" for index in (1, 2, 50))


@each(
    "broken, changes, symptom, detail",
    [
        (
            30,
            {"exit_code": 1, "stderr": b"error: too many turns\n"},
            "refused",
            "turn 30: exit code 1: error: too",
        ),
        (31, {"requests": ()}, "refused", "turn 31: the prompt was not sent"),
        (32, {"requests": (t.exchange(t.nonce("long-session/turn-32")),)}, "context-lost", "turn 32: earlier turns"),
        (50, {"stdout": t.printed(t.ANOTHER)}, "new-handle", f"turn 50: resumed {t.SESSION}, but reported {t.ANOTHER}"),
    ],
)
def test_a_long_session_names_the_turn_that_breaks_it(
    broken: int, changes: dict[str, Any], symptom: str, detail: str
) -> None:
    """A turn that fails, sends no prompt, has lost an earlier turn or has another id fails with its symptom."""
    finding = long_session(broken, **changes)
    assert not finding.ok
    assert finding.symptoms == (symptom,)
    assert detail in finding.detail


SUMMARY = "tgn-00000000000000aa"
SUMMARIZED = t.exchange(t.nonce("compaction/again"), reply="summary")
TOO_LONG = t.resumed("compaction/again", "compaction/first", summary=SUMMARY, requests=(SUMMARIZED,))
NEXT = t.resumed("compaction/third", summary=SUMMARY, requests=(t.exchange(t.nonce("compaction/third"), SUMMARY),))


def compacted(again: Turn = TOO_LONG, third: Turn = NEXT) -> Finding:
    """Check a session that got too long in its second turn."""
    return t.check("resume.after-compaction", t.turn("compaction/first"), again, third)


def test_a_session_goes_on_with_its_summary() -> None:
    """A summary that the model was asked for, in either turn, is sent with the next prompt."""
    assert compacted().ok
    late = (t.exchange(t.nonce("compaction/again"), reply="summary"), *(NEXT.requests or ()))
    assert compacted(replace(TOO_LONG, requests=()), replace(NEXT, requests=late)).ok


def prompt(*nonces: str) -> tuple[Exchange, ...]:
    """Return the request of the turn after the summary, with these nonces beside that of its prompt."""
    return (t.exchange(t.nonce("compaction/third"), *nonces),)


@each(
    "step, changes, symptom, detail",
    [
        ("again", {"exit_code": 1, "stderr": b"error: too long\n"}, "refused", "got too long: exit code 1: error: too"),
        (
            "third",
            {"exit_code": 1, "stderr": b"error: no session\n"},
            "refused",
            "the next turn: exit code 1: error: no",
        ),
        ("third", {"requests": ()}, "refused", "the prompt was not sent"),
        ("again", {"stdout": t.printed(None)}, "framing", "got too long: no record"),
        ("again", {"stdout": t.printed(text=None)}, "framing", "got too long: no terminal event"),
        ("third", {"stdout": b"compacted\n" + t.printed()}, "framing", "the next turn: "),
        ("third", {"stdout": t.printed(t.ANOTHER)}, "new-handle", f"resumed {t.SESSION}, but reported {t.ANOTHER}"),
        ("again", {"requests": ()}, "not-compacted", "990000 tokens, but no request asked it for a summary"),
        (
            "third",
            {"requests": prompt(t.nonce("compaction/first"), t.nonce("compaction/again"))},
            "not-compacted",
            "the whole conversation was sent",
        ),
        ("third", {"requests": prompt()}, "context-lost", "the summary was not sent"),
        ("third", {"requests": prompt(t.nonce("compaction/first"))}, "context-lost", "the summary was not sent"),
    ],
)
def test_a_session_that_does_not_survive_its_summary(
    step: str, changes: dict[str, Any], symptom: str, detail: str
) -> None:
    """A turn that fails, prints something else, has another id or not the summary fails with its symptom."""
    name, carried = f"compaction/{step}", () if step == "third" else ("compaction/first",)
    requests = NEXT.requests if step == "third" else TOO_LONG.requests
    changed = t.resumed(name, *carried, **{"summary": SUMMARY, "requests": requests, **changes})
    finding = compacted(**{step: changed})
    assert not finding.ok
    assert finding.symptoms == (symptom,)
    assert detail in finding.detail


def test_a_release_that_is_not_known_to_compact_is_not_asked() -> None:
    """Without something in the contract that makes a release compact, the clause is skipped."""
    hermetic = replace(t.CODEX.hermetic, compaction=None)
    with pytest.raises(SkippedError, match="makes this release compact"):
        t.check("resume.after-compaction", contract=replace(t.CODEX, hermetic=hermetic))
