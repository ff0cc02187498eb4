"""Rules, judged from records of calls."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.tables import each
from turngate import load_contract
from turngate_probes.conform.calls import CallEnd, EngineCall, HeardPart, Started
from turngate_probes.conform.catalogue import Scenario, scenarios
from turngate_probes.conform.judge import Breach, Evidence, Ran, breaches, in_calls
from turngate_probes.conform.message_forms import forms
from turngate_probes.conform.plan import Conversation
from turngate_probes.simulate.misbehaviour import SAYS, UNREAD

A = Conversation("a", ("prompt of a", "reply of a"), "amber", "/work")
B = Conversation("b", ("prompt of b", "reply of b"), "beryl", "/work")
ESCAPED = Conversation("a", A.prompts, "amber \u00e4", "/work")
# with a third turn
LONG = Conversation("a", (*A.prompts, "another reply of a"), A.answer, A.workspace)
TWO_TURNS = scenarios()["two-turns"]


def call(number: int, text: str, *, resumed: str | None = None, handle: str | None = "s1", **more: Any) -> EngineCall:
    """Return a good call that ends before the next one starts; `more` are fields of its start or of the call."""
    start: dict[str, Any] = {"cwd": "/work", "stdin": "pipe", "kind": "turn", "prompt": text, "resumed": resumed}
    whole: dict[str, Any] = {
        "ended": CallEnd(handle, 0, number + 0.5),
        "stdin_closed": True,
        "stdout": b"",
        "stderr": "",
        "signals": (),
    }
    for name, value in more.items():
        (start if name in Started.__struct_fields__ else whole)[name] = value
    fields: dict[str, Any] = {"argv": ("exec",), "at": float(number)} | start
    started = Started(number, **{"env": ("HOME", "PATH")} | fields)
    return EngineCall(number, started, stdin=b"", handle=handle, **whole)


def ran(talk: Conversation = A, code: int | None = 0, stdout: str | None = None, left: tuple[str, ...] = ()) -> Ran:
    """Return a COMMAND that succeeded."""
    return Ran(talk, code, talk.answer if stdout is None else stdout, "", 1.0, left)


def rules(*calls: EngineCall, scenario: Scenario = TWO_TURNS, did: tuple[Ran, ...] = (ran(),)) -> list[str]:
    """Return the rules that these calls break."""
    return [row.rule.removeprefix("orchestrator.") for row in breaches(Evidence(scenario, did, calls))]


GOOD = (call(1, A.prompts[0]), call(2, A.prompts[1], resumed="s1"))


def test_a_limit_of_its_own_is_late() -> None:
    """A minute is, on any machine and with any deadline; a slow machine gives a right one more time."""
    hang = scenarios()["hang-before-answer"]
    calls = (GOOD[0], replace(GOOD[1], ended=None))
    for deadline, before, took, late in (
        (5.0, 2.0, 19.0, False),
        (5.0, 2.0, 23.0, True),
        (5.0, 12.0, 30.0, False),
        (25.0, 12.0, 50.0, False),
        (25.0, 90.0, 60.0, True),
    ):
        did = replace(ran(code=1), seconds=before + took, ended=calls[1].started.at + took)
        broken = rules(*calls, scenario=replace(hang, deadline=deadline, grace=75.0), did=(did,))
        assert broken == ["ends-hangs"] * late, (deadline, before, took)


def test_a_good_conversation_breaks_nothing() -> None:
    """Also with a wrapped prompt, and with questions for the version in between."""
    assert rules(*GOOD) == []
    query = call(3, "", kind="query", handle=None, cwd="/", stdin_closed=False)
    assert rules(call(1, f"system: x\n{A.prompts[0]}\n"), GOOD[1], query) == []


@each(
    "name, did, broken",
    [
        ("two-turns", ran(code=1), ["completes"]),
        ("two-turns", ran(stdout="done"), ["completes"]),
        ("two-turns", ran(code=None), ["completes"]),
        ("two-turns", ran(stdout=A.answer.upper()), ["completes"]),
        ("two-turns", ran(ESCAPED, stdout=json.dumps({"answer": ESCAPED.answer})), []),
        ("two-turns", ran(ESCAPED, stdout=r"amber \U00E4"), ["completes"]),
        ("fresh-session", ran(), ["notices-fresh-session"]),
        ("fresh-session", ran(code=7, stdout=""), []),
        ("late-id", ran(code=1, stdout=""), []),
        ("late-id", ran(stdout="something"), ["resumes-the-id"]),
        ("exits-unread", ran(stdout=""), ["notices-failure"]),
        ("canceled", ran(stdout=""), ["notices-missing-answer"]),
        ("launcher", ran(stdout=""), ["notices-missing-answer"]),
        ("canceled", ran(code=None, stdout=""), ["leaves-nothing-running"]),
        ("canceled", ran(code=1, stdout="", left=("codex exec",)), ["leaves-nothing-running"]),
        (
            "hang-before-answer",
            ran(code=None, stdout="", left=("codex exec",)),
            ["ends-hangs", "leaves-nothing-running"],
        ),
    ],
)
def test_the_result_is_compared_with_what_the_scenario_expects(name: str, did: Ran, broken: list[str]) -> None:
    """The rule of the scenario is broken by another result."""
    assert rules(*GOOD, scenario=scenarios()[name], did=(did,)) == broken


@each(
    "changed, broken",
    [
        (call(2, A.prompts[1], resumed="s1", auto_approving=("--yolo",)), ["no-auto-approval"]),
        (call(2, A.prompts[1], resumed="s1", cwd="/tmp"), ["same-directory"]),
        (call(2, A.prompts[1], resumed="s1", stdin_closed=False), ["stdin"]),
        (call(2, A.prompts[1], resumed="s2"), ["resumes-the-id"]),
        (call(2, A.prompts[1], resumed="s1", newest_session="--last"), ["resumes-the-id"]),
        (call(2, A.prompts[1], handle="s2"), ["resumes-the-id"]),
        (call(2, "reply", resumed="s1"), ["text-whole"]),
        (call(2, "", kind="refused", problem="no"), ["arguments"]),
        (call(2, A.prompts[1], resumed="s1", at=1.2), ["one-turn-at-a-time"]),
    ],
)
def test_a_call_breaks_its_rule(changed: EngineCall, broken: list[str]) -> None:
    """And no other."""
    assert rules(GOOD[0], changed) == broken


@each(
    "code, stderr, is_broken",
    [
        (1, UNREAD, False),
        (1, "it failed", False),
        (1, "Error: write EPIPE", True),
        (1, "BrokenPipeError: [Errno 32] Broken pipe", True),
        (1, f"{UNREAD}warning: broken pipe", False),
        (-signal.SIGPIPE, UNREAD, True),
        (128 + signal.SIGPIPE, UNREAD, True),
    ],
)
def test_a_broken_pipe_hides_no_message(code: int, stderr: str, is_broken: bool) -> None:  # noqa: FBT001
    """Where the engine exits without reading its prompt, the engine's message is the failure, not the pipe."""
    did = Ran(A, code, "", stderr, 1.0, ())
    broken = rules(call(1, A.prompts[0], stdin_closed=False), scenario=scenarios()["exits-unread"], did=(did,))
    assert broken == (["survives-broken-pipe"] if is_broken else [])


@each(
    "flooded, did, broken",
    [
        (2**21 - 1, ran(code=1, stdout=""), "reads-any-output"),
        (2**21 - 1, ran(stdout="something"), "reads-any-output"),
        (2**16, ran(code=1, stdout=""), "no-deadlock"),
        (2**21 - 1, ran(code=None, stdout=""), "no-deadlock"),
    ],
)
def test_a_flood_that_was_read_blocks_nothing(flooded: int, did: Ran, broken: str) -> None:
    """Who fails then, for example because it took the flood for records, misreads the output."""
    first = call(1, A.prompts[0], flooded=flooded)
    assert rules(first, scenario=scenarios()["stderr-flood"], did=(did,)) == [broken]


@pytest.mark.parametrize(
    "calls, course",
    [
        ((), "the engine was not started"),
        (GOOD, "call 2 of the engine exited with 0"),
        (
            (call(1, A.prompts[0], stderr="first\nlast\n"),),
            "call 1 of the engine exited with 0 and printed 'last' on stderr",
        ),
        ((GOOD[0], call(2, A.prompts[1], resumed="s1", ended=None)), "call 2 of the engine was ended"),
    ],
    ids=["not started", "silent", "with a message", "ended by COMMAND"],
)
def test_a_failed_command_is_told_with_how_far_the_engine_came(calls: tuple[EngineCall, ...], course: str) -> None:
    """It says where to look."""
    (breach, *_) = breaches(Evidence(TWO_TURNS, (ran(code=1, stdout=""),), calls))
    assert breach.detail == f"it exited with 1; {course}"


def test_an_id_from_text_is_told_apart() -> None:
    """It occurs in the output of an earlier call, but is not the id of its session."""
    decoy = call(1, A.prompts[0], stdout=b'{"text": "thread s9"}')
    assert rules(decoy, call(2, A.prompts[1], resumed="s9")) == ["id-from-its-place"]


def test_each_turn_resumes_what_the_last_one_printed() -> None:
    """The first id is wrong if the second turn printed another."""
    renamed, third = call(2, LONG.prompts[1], resumed="s1", handle="s2"), LONG.prompts[2]
    assert rules(GOOD[0], renamed, call(3, third, resumed="s2", handle="s2"), did=(ran(LONG),)) == []
    broken = rules(GOOD[0], renamed, call(3, third, resumed="s1", handle="s2"), did=(ran(LONG),))
    assert broken == ["resumes-the-id"]


def failed(handle: str) -> EngineCall:
    """Return a second turn that resumed s1 and failed."""
    return call(2, A.prompts[1], resumed="s1", handle=handle, ended=CallEnd(handle, 1, 2.5))


@pytest.mark.parametrize(
    "calls",
    [
        (call(1, A.prompts[0]), call(2, A.prompts[0], handle="s2"), call(3, A.prompts[1], resumed="s2", handle="s2")),
        (GOOD[0], failed("s1"), call(3, A.prompts[1], resumed="s1")),
        (GOOD[0], failed("s2"), call(3, A.prompts[1], resumed="s1", handle="s2")),
        (GOOD[0], failed("s2"), call(3, A.prompts[1], resumed="s2", handle="s2")),
        (call(1, A.prompts[0]), call(2, A.prompts[0], handle="s2")),
    ],
    ids=["first turn", "second turn", "id before the attempt", "id of the attempt", "no reply"],
)
def test_a_text_that_is_sent_again_is_another_attempt(calls: tuple[EngineCall, ...]) -> None:
    """It may resume what the first attempt did, and starts a fresh session only in the first turn."""
    assert rules(*calls) == []


def test_what_the_user_says_is_sent_once() -> None:
    """A reply whose turn succeeded does not come again, nor does the first prompt with a reply."""
    assert rules(*GOOD, call(3, A.prompts[1], resumed="s1")) == ["sent-once"]
    assert rules(GOOD[0], call(2, A.prompts[0], resumed="s1"), call(3, A.prompts[1], resumed="s1")) == ["sent-once"]
    assert rules(GOOD[0], call(2, "\n".join(A.prompts), resumed="s1")) == ["sent-once"]


KEPT: dict[str, Any] = {"kind": "process", "prompt": None, "handle": None, "stdin_closed": False, "ended": None}


def process(number: int, at: float, *said: str, session: str = "s1", beside: tuple[int, ...] = ()) -> EngineCall:
    """Return a process that was killed, after it had answered each prompt in a session."""
    known = forms(load_contract("gemini", None), "acp")
    sent = [
        {"id": index, "method": "session/prompt", "params": {"sessionId": session, "prompt": [{"text": text}]}}
        for index, text in enumerate(said)
    ]
    stdin = b"".join(json.dumps(message).encode() + b"\n" for message in sent)
    ends = [{"id": message["id"], "result": {"stopReason": "end_turn"}} for message in sent]
    stdout = "\n".join(map(json.dumps, ends)).encode()
    heard = (HeardPart(len(stdin), at, beside),)
    return replace(call(number, "", **KEPT, at=at - 0.5, forms=known, stdout=stdout, heard=heard), stdin=stdin)


def test_a_process_for_several_turns_is_judged_turn_by_turn() -> None:
    """By the rules for calls, also if another process goes on with the session."""
    first, reply = A.prompts
    for calls, broken in (
        ([process(1, 1, first, reply)], []),
        ([process(1, 1, first), process(2, 2, reply)], []),
        ([process(1, 1, first), call(2, reply, resumed="s1")], []),
        ([process(1, 1, first, reply, reply)], ["sent-once"]),
        ([process(1, 1, first, reply), process(2, 2, reply)], ["sent-once"]),
        ([process(1, 1, first, f"{first} {reply}")], ["sent-once"]),
        ([process(1, 1, first), process(2, 2, reply, session="s2")], ["resumes-the-id"]),
        ([process(1, 1, first), process(2, 2, "a title", session="s2"), process(3, 3, reply)], []),
        ([process(1, 1, first), process(2, 2, reply, beside=(1,))], ["one-turn-at-a-time"]),
        ([process(1, 1, first), process(2, 2, "a title", session="s2", beside=(1,)), process(3, 3, reply)], []),
    ):
        assert rules(*calls) == broken, [made.text for made in calls]


def test_each_conversation_of_a_process_has_its_session() -> None:
    """Also if they take turns; a reply in the session of the other is found."""
    one, other = process(1, 1, A.prompts[0]), process(1, 2, B.prompts[0], session="s2")
    end = replace(other, heard=(HeardPart(len(one.stdin + other.stdin), 2, ()),), stdin=one.stdin + other.stdin)
    for session, broken in (("s2", []), ("s1", ["separate-conversations"])):
        calls = end, process(2, 3, B.prompts[1], session=session), process(3, 4, A.prompts[1])
        assert rules(*calls, did=(ran(A), ran(B))) == broken


def test_a_service_may_leave_a_session_to_another_process() -> None:
    """It keeps none in its memory, so only its turns could overlap."""
    first, second = process(1, 1, A.prompts[0]), process(2, 2, A.prompts[1], beside=(1,))
    holds = replace(first.started.forms, holds=False)
    assert rules(replace(first, started=replace(first.started, forms=holds)), second) == []


def test_a_later_turn_keeps_the_model() -> None:
    """What a resumed session forgets is passed again; another value, or a new option, may be meant."""
    first, other = call(1, A.prompts[0], forgotten=("--model",)), ("--model", "--add-dir")
    assert rules(first, call(2, A.prompts[1], resumed="s1")) == ["keeps-the-options"]
    assert rules(first, call(2, A.prompts[1], resumed="s1", forgotten=other)) == []
    assert rules(GOOD[0], call(2, A.prompts[1], resumed="s1", forgotten=other)) == []
    assert rules(first, call(2, A.prompts[1], resumed="s1", forgotten=None)) == []


def test_keys_the_environment_and_what_is_left() -> None:
    """A key that others see is breaking; what may be deliberate is a remark."""
    evidence = Evidence(
        TWO_TURNS,
        (ran(),),
        (replace(GOOD[0], started=replace(GOOD[0].started, argv=("exec", "key=sk-1"), env=("PATH",))), GOOD[1]),
    )
    evidence = replace(evidence, keys=("sk-1",), left=("/work/prompt.md",))
    assert {breach.rule: breach.detail for breach in breaches(evidence)} == {
        "orchestrator.keeps-keys-private": "the user's key is an argument",
        "orchestrator.passes-the-environment": "it got no HOME",
        "orchestrator.leaves-no-files": "what the user said is still in /work/prompt.md",
    }
    printed = Evidence(TWO_TURNS, (replace(ran(), stderr="key sk-1"),), GOOD, keys=("sk-1",))
    assert breaches(printed) == [Breach("orchestrator.keeps-keys-private", "it printed the user's key")]
    exposed = Evidence(TWO_TURNS, (ran(),), GOOD, exposed=("/work/.env",))
    assert breaches(exposed) == [Breach("orchestrator.keeps-keys-private", "every user can read the key in /work/.env")]


def test_a_damaged_answer_is_a_wrong_one() -> None:
    """Also if the damage is in another part of the text than the word that tells conversations apart."""
    split = scenarios()["split-characters"]
    assert rules(*GOOD, scenario=split, did=(ran(stdout=f"Gr??e {A.answer}"),)) == ["reads-any-output"]
    assert rules(*GOOD, scenario=split, did=(ran(stdout=SAYS["unicode"] + A.answer),)) == []


def test_a_refused_call_is_the_only_finding() -> None:
    """That the conversation fails follows from it."""
    refused = call(1, "", kind="refused", handle=None, problem="unexpected argument '--full-auto'")
    assert rules(refused, did=(ran(code=1, stdout=""),)) == ["arguments"]


def test_another_attempt_does_not_lose_the_session() -> None:
    """A reply that is sent again to a fresh session is no attempt of that turn."""
    assert rules(*GOOD, call(3, A.prompts[1], handle="s2")) == ["resumes-the-id"]


def test_an_id_that_the_caller_chose_needs_no_printing() -> None:
    """It is resumed although no turn printed it; another one that is printed is a fresh session."""
    minted = call(1, A.prompts[0], handle=None, chosen="s7")
    assert rules(minted, call(2, A.prompts[1], resumed="s7", handle=None)) == []
    assert rules(minted, call(2, A.prompts[1], resumed="s7", handle=None), scenario=scenarios()["no-id"]) == []
    assert rules(minted, call(2, A.prompts[1], resumed="s8", handle=None)) == ["resumes-the-id"]
    fresh = scenarios()["fresh-session"]
    assert rules(minted, call(2, A.prompts[1], resumed="s7", handle="s9"), scenario=fresh) == ["notices-fresh-session"]


def test_the_whole_conversation_in_a_prompt_needs_no_session() -> None:
    """A fresh session that gets the earlier turns goes on; one that gets the reply alone has lost them."""
    whole = call(2, "\n".join(A.prompts), handle="s2")
    assert rules(GOOD[0], whole) == []
    assert rules(GOOD[0], whole, scenario=scenarios()["fresh-session"]) == []
    assert rules(GOOD[0], whole, scenario=scenarios()["crash"]) == ["notices-failure"]
    assert rules(GOOD[0], call(2, A.prompts[1], handle="s2")) == ["resumes-the-id"]


def test_a_call_says_more_than_the_result() -> None:
    """Both break one rule; the detail is that of the call."""
    renamed = call(2, LONG.prompts[1], resumed="s1", handle="s2")
    calls = (GOOD[0], renamed, call(3, LONG.prompts[2], resumed="s1", handle="s2"))
    evidence = Evidence(scenarios()["renamed-session"], (ran(LONG, stdout="?"),), calls)
    detail = "it resumed 's1', but the last turn printed 's2'"
    assert breaches(evidence) == [Breach("orchestrator.resumes-the-id", detail, 3)]


def test_conversations_keep_to_themselves() -> None:
    """Neither the session nor the answer of the other is used."""
    both, first = (ran(A), ran(B)), [call(1, A.prompts[0]), call(2, B.prompts[0], handle="s2")]
    assert (
        rules(*first, call(3, B.prompts[1], resumed="s2", handle="s2"), call(4, A.prompts[1], resumed="s1"), did=both)
        == []
    )
    crossed = [call(3, B.prompts[1], resumed="s1"), call(4, A.prompts[1], resumed="s2", handle="s2")]
    assert rules(*first, *crossed, did=both) == ["separate-conversations"]
    assert rules(*first, did=(ran(A, stdout="beryl"), ran(B)))[0] == "separate-conversations"


def test_each_conversation_has_its_directory() -> None:
    """That of the other is none, unless one call serves both."""
    there = replace(B, workspace="/work-2")
    for cwd, broken in (("/work-2", []), ("/work", ["same-directory"])):
        calls = call(1, A.prompts[0]), call(2, B.prompts[0], handle="s2", cwd=cwd)
        assert rules(*calls, did=(ran(A), ran(there))) == broken
    both = call(1, f"{A.prompts[0]}, {B.prompts[0]}", cwd="/work-2")
    assert rules(both, did=(ran(A), ran(there))) == []


def test_a_directory_may_be_spelled_in_another_way(tmp_path: Path) -> None:
    """A link, or a slash at the end, leads to the same one."""
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work")
    there = replace(A, workspace=str(tmp_path / "link"))
    assert rules(call(1, A.prompts[0], cwd=str(tmp_path / "work")), did=(ran(there),)) == []


def test_a_terminal_holds_only_an_engine_that_reads_its_prompt_there() -> None:
    """It never ends, and nobody waits for it if the prompt is an argument."""
    for prompt, broken in ((A.prompts[0], []), (None, ["stdin"])):
        typed = call(1, A.prompts[0], stdin="terminal", stdin_closed=False)
        typed = replace(typed, stdin=A.prompts[0].encode(), started=replace(typed.started, prompt=prompt))
        assert rules(typed, GOOD[1]) == broken


def test_only_some_rules_hold_for_every_command() -> None:
    """Approval counts only with a user in the loop."""
    wide = call(1, "anything", auto_approving=("--yolo",), stdin_closed=False)
    evidence = Evidence(TWO_TURNS, (), (wide,), interactive=False)
    assert [row.rule for row in in_calls(evidence)] == ["orchestrator.stdin"]
    evidence = Evidence(TWO_TURNS, (), (wide,))
    assert in_calls(evidence)[0] == Breach(
        "orchestrator.no-auto-approval", "these let it act without asking: --yolo", 1
    )
