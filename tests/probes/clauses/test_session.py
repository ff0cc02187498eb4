"""Checks of disturbed sessions and of turns that run at the same time, on hand-made turns."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate.model import Ended, Mode
from turngate_probes.harness.observations import NotObservedError, Turn
from turngate_probes.harness.session_cases import OPENING, REPEATED, disturbances
from turngate_probes.stub_model import Exchange
from turngate_probes.stub_model.protocol import ToolIds

STEPS = [each.step for each in disturbances(t.CODEX)]
FIRST = "disturbed/called"
DENIED = (
    t.turn("tool-call/first", requests=(t.exchange(t.nonce("tool-call/first"), reply="tool_call exec_command"),)),
    t.resumed("tool-call/again", "tool-call/first"),
)
ANSWER = '{{"outcome": "final", "final_data": {{"step": "{}"}}}}'
_REPLIES = {"failed-401": "refuse 401", "failed-429": "refuse 429", "failed-500": "refuse 500", "failed-cut": "cut"}


def step(name: str, **changes: Any) -> Turn:
    """Return the turn of a step, in which what the step is about took place, and which carries the session on."""
    full, first = f"disturbed/{name}", name == "called"
    usual: dict[str, Any] = {"mode": Mode.AUTO, "acted": first, "resumed": None if first else t.SESSION}
    calls = "call" in name
    replies = ["tool_call exec_command"] if calls else []
    replies += [_REPLIES.get(name, "text")] if name != "killed-in-call" else []
    carried = () if first else (t.nonce(FIRST),)
    usual["requests"] = tuple(t.exchange(*carried, t.nonce(full), reply=reply) for reply in replies)
    if name.startswith("killed"):
        usual |= {
            "exit_code": -9,
            "signal": "SIGKILL",
            "stdout": t.printed(text="x" if name == "killed-at-end" else None),
        }
    if name.startswith("failed"):
        usual |= {"exit_code": 1, "stdout": t.printed(text=None, failure="it failed")}
    if name == "last":
        usual["requests"] = (request("last", FIRST, "disturbed/killed-at-end"),)
    return t.turn(full, **usual | changes)


def request(name: str, *carried: str, **changes: Any) -> Exchange:
    """Return a request of a step that carries these turns."""
    return t.exchange(*map(t.nonce, carried), t.nonce(f"disturbed/{name}"), **changes)


def story(*changed: Turn) -> tuple[Turn, ...]:
    """Return the turns of the disturbed session and of the denied call, some of them changed."""
    turns = {turn.name: turn for turn in (*map(step, STEPS), *DENIED)}
    return tuple((turns | {turn.name: turn for turn in changed}).values())


@pytest.mark.parametrize("clause", ["resume.after-tool-call", "resume.after-failure", "resume.after-kill"])
def test_a_session_that_goes_on_passes(clause: str) -> None:
    """Each step's request carries the first turn, so that all three clauses hold."""
    assert t.check(clause, *story()).ok


def unsent(name: str, **changes: Any) -> Turn:
    """Return a step that fails at once, without a request."""
    return step(name, **{"requests": (), "exit_code": 1, "stdout": b"", "stderr": b"Error: no such thing\n"} | changes)


@each(
    "clause, changed, symptom, detail",
    [
        ("resume.after-tool-call", unsent("call-failed"), "refused", "after a tool call: the prompt was not sent"),
        (
            "resume.after-tool-call",
            step("failed-401", requests=(request("failed-401"),)),
            "context-lost",
            "failed tool",
        ),
        (
            "resume.after-tool-call",
            step(
                "failed-401",
                requests=(request("failed-401", FIRST, reply="refuse 401", unpaired=ToolIds(("call_7",))),),
            ),
            "unanswered-call",
            "after a failed tool call: the next request has a tool call without its result",
        ),
        (
            "resume.after-tool-call",
            step("call-failed", requests=(request("call-failed", FIRST, unpaired=ToolIds((), ("call_7",))),)),
            "repeated-result",
            "after a tool call: the next request has a result twice",
        ),
        (
            "resume.after-tool-call",
            replace(DENIED[1], requests=(t.exchange(t.nonce("tool-call/again")),)),
            "context-lost",
            "after a denied tool call",
        ),
        ("resume.after-failure", unsent("failed-429"), "refused", "after status 401"),
        ("resume.after-failure", step("failed-cut", requests=(request("failed-cut"),)), "context-lost", "status 500"),
        (
            "resume.after-failure",
            step("killed-in-request", stdout=t.printed(t.ANOTHER, None), requests=(request("killed-in-request"),)),
            "fresh-session",
            "after a cut answer",
        ),
        (
            "resume.after-failure",
            step("failed-429", stdout=t.printed(t.ANOTHER, None)),
            "new-handle",
            f"resumed {t.SESSION}, but reported {t.ANOTHER}",
        ),
        (
            "resume.after-kill",
            unsent("killed-in-call", ended=Ended.TIMEOUT, exit_code=-15),
            "hang",
            "after a kill while the model answers: still running",
        ),
        (
            "resume.after-kill",
            step("killed-at-end", requests=(request("killed-at-end", FIRST, unpaired=ToolIds(("call_1",))),)),
            "unanswered-call",
            "after a kill while a tool runs",
        ),
        (
            "resume.after-kill",
            step("last", requests=(request("last", FIRST),)),
            "turn-lost",
            "after a kill at the terminal event: the turn had ended",
        ),
    ],
)
def test_a_session_that_is_lost_names_its_cause(clause: str, changed: Turn, symptom: str, detail: str) -> None:
    """The finding says after what the session was lost and how, and no other clause reports it."""
    turns = story(changed)
    finding = t.check(clause, *turns)
    assert (finding.ok, finding.symptoms) == (False, (symptom,))
    assert detail in finding.detail
    clauses = ("resume.after-tool-call", "resume.after-failure", "resume.after-kill")
    failed = [each for each in clauses if not t.check(each, *_begun_anew(turns, changed)).ok]
    assert failed == [clause]


def _begun_anew(turns: Iterable[Turn], changed: Turn) -> tuple[Turn, ...]:
    """Return the turns as the case plays them: a step that lost the session is repeated in another one."""
    if changed.case != "disturbed" or changed.step == "last" or changed.carries(step("called")):
        return tuple(turns)
    later = STEPS[STEPS.index(changed.step) + 1 :]
    opening = t.turn(f"{changed.name}{OPENING}", t.printed(t.ANOTHER), mode=Mode.AUTO)
    repeated = replace(step(changed.step), name=f"{changed.name}{REPEATED}", resumed=t.ANOTHER)
    others = {turn.name: turn for turn in (*turns, opening, repeated)}
    for name in later:
        turn = others[f"disturbed/{name}"]
        moved = tuple(replace(each, nonces=(*each.nonces, opening.nonce)) for each in turn.watched)
        shown = {"stdout": turn.stdout.replace(t.SESSION.encode(), t.ANOTHER.encode())}
        others[turn.name] = step(name, requests=moved, resumed=t.ANOTHER, **shown)
    return tuple(others.values())


def test_what_was_unpaired_before_a_kill_is_not_its_fault() -> None:
    """A result that was repeated in the killed turn already is reported once, by the clause about calls."""
    told = ToolIds((), ("call_1",))
    requests = [
        (request("killed-in-call", FIRST, reply="tool_call exec_command", unpaired=told),),
        (request("killed-at-end", FIRST, unpaired=told),),
    ]
    turns = (step(name, requests=of) for name, of in zip(("killed-in-call", "killed-at-end"), requests, strict=True))
    assert t.check("resume.after-kill", *story(*turns)).ok


def test_an_engine_may_say_that_a_killed_session_is_lost() -> None:
    """A resume that fails at once after a kill is no silent loss; the finding names it."""
    refused = unsent("killed-in-call")
    finding = t.check("resume.after-kill", *_begun_anew(story(refused), refused))
    assert finding.ok
    assert (
        "said that it can't go on after a kill while the model answers (exit code 1: Error: no such" in finding.detail
    )


@each(
    "clause, changed, reason",
    [
        ("resume.after-tool-call", step("called", acted=False), Reason.CONTRACT),
        ("resume.after-tool-call", step("called", requests=(request("called"),)), None),
        (
            "resume.after-failure",
            step("failed-500", requests=(request("failed-500", FIRST),), exit_code=0, stdout=t.printed()),
            None,
        ),
        ("resume.after-kill", step("killed-in-request", exit_code=0, stdout=t.printed(text=None)), None),
        ("resume.after-kill", step("killed-in-call", exit_code=0), Reason.CONTRACT),
    ],
)
def test_what_did_not_take_place_shows_nothing(clause: str, changed: Turn, reason: Reason | None) -> None:
    """Without an effect of the call, a failure of the model or a kill, nothing passes."""
    with pytest.raises(NotObservedError) as raised:
        t.check(clause, *story(changed))
    assert raised.value.obstacle.reason is reason


def test_an_engine_that_has_exited_before_its_kill_is_named() -> None:
    """At the terminal event the engine may be faster than the kill, which the finding says."""
    finding = t.check("resume.after-kill", *story(step("killed-at-end", exit_code=0)))
    assert finding.ok
    assert finding.detail.endswith("went on after a kill at the terminal event, though it had exited before")


def test_a_contract_without_a_command_can_t_be_asked() -> None:
    """Without a command for the model to call, the clauses about calls say so."""
    silent = replace(t.CODEX, hermetic=replace(t.CODEX.hermetic, command_call=None))
    with pytest.raises(NotObservedError, match="names no command"):
        t.check("resume.after-kill", *story(), contract=silent)


def beside(name: str, *carried: str, session: str = t.SESSION, **changes: Any) -> Turn:
    """Return a turn of one of the two conversations."""
    full, answer = f"at-once/{name}", ANSWER.format(name)
    usual: dict[str, Any] = {
        "stdout": t.printed(session, answer),
        "scripted": answer,
        "carries": tuple(f"at-once/{each}" for each in carried),
        "resumed": session if carried else None,
        "finished_at": 2.0,
    }
    return t.turn(full, **usual | changes)


A_FIRST, B_FIRST = beside("a-first"), beside("b-first", session=t.ANOTHER)
A_AGAIN, A_BESIDE = beside("a-again", "a-first"), beside("a-beside", "a-first")
B_AGAIN = beside("b-again", "b-first", session=t.ANOTHER)
A_LAST = beside("a-last", "a-first", "a-again", "a-beside")
REFUSED = t.refused("at-once/a-beside", resumed=t.SESSION)


def both(*changed: Turn) -> Finding:
    """Check two conversations at once, some of whose turns are changed."""
    usual = (A_FIRST, B_FIRST, A_AGAIN, A_BESIDE, B_AGAIN, A_LAST)
    return t.check("session.at-once", *({turn.name: turn for turn in (*usual, *changed)}).values())


@each(
    "changed, detail",
    [
        ((), "it kept both"),
        ((REFUSED, beside("a-last", "a-first", "a-again")), "it refused one (exit code 1: Error: no such thing)"),
        (
            (
                beside("a-beside", "a-first", stdout=t.printed("another", ANSWER.format("a-beside"))),
                beside("a-last", "a-first", "a-again"),
            ),
            "it kept both",
        ),
    ],
)
def test_two_conversations_at_once_pass(changed: tuple[Turn, ...], detail: str) -> None:
    """Both go on, and a second resume of one of them is kept, refused, or told by another id."""
    finding = both(*changed)
    assert finding.ok, finding.detail
    assert detail in finding.detail


@each(
    "changed, symptom, detail",
    [
        (t.refused("at-once/b-first"), "refused", "beside another conversation: the prompt was not sent"),
        (t.hung("at-once/a-again", resumed=t.SESSION, carries=("at-once/a-first",)), "hang", "another resume of its"),
        (beside("a-last", "a-first", "a-again"), "message-lost", "lacks at-once/a-beside"),
        (beside("a-last", "a-again", "a-beside"), "context-lost", "after two resumes at once"),
        (t.refused("at-once/a-last", resumed=t.SESSION), "refused", "at once: the prompt was not sent"),
        (beside("b-again", "b-last", session=t.ANOTHER), "context-lost", "beside another conversation: earlier turns"),
        (beside("b-again", "b-first", "a-again", session=t.ANOTHER), "", "prompt of another conversation: at-once/a-a"),
        (
            beside("a-last", "a-first", "b-first", "a-again", "a-beside"),
            "",
            "prompt of another conversation: at-once/b",
        ),
        (
            beside("b-first", stdout=t.printed(t.ANOTHER, ANSWER.format("a-first")), session=t.ANOTHER),
            "",
            "the answer of",
        ),
        (beside("b-first"), "", "reported the id of another"),
        (beside("b-again", "b-first", stdout=t.printed()), "", "reported the id of another"),
    ],
)
def test_what_two_conversations_do_to_each_other_is_named(changed: Turn, symptom: str, detail: str) -> None:
    """A failure, a lost message and a mixed answer fail, and only what a deviation may excuse has a symptom."""
    finding = both(changed)
    assert (finding.ok, finding.symptoms) == (False, (symptom,) if symptom else ())
    assert detail in finding.detail


def test_turns_that_ran_one_after_the_other_show_nothing() -> None:
    """A machine on which the second turn asks its model after the first one has ended proves nothing."""
    late = replace(B_FIRST, requests=(replace(B_FIRST.watched[0], at=3.0),))
    with pytest.raises(NotObservedError, match="did not run at the same time"):
        both(late)
