"""Checks of the loop through the reference server, on hand-made server runs."""

import pytest

from tests.probes import turns as t
from tests.probes.server_level import server_runs as v
from tests.tables import each
from turngate.contract import load
from turngate.contract.load import catalogue
from turngate_probes.clauses import CHECKS
from turngate_probes.harness.driver import ANSWER
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import NotObservedError, Observation
from turngate_probes.harness.server_calls import RACERS
from turngate_probes.server_level.cases import RESUMED_CASES

CLAUSES = [clause.id for clause in catalogue().at_level("server") if clause.id.startswith("server.")]
CLAUDE = load.contract("claude").at()
FRESH = t.printed(t.ANOTHER)

SPOILT: dict[str, tuple[str, Observation]] = {
    "the run failed": ("waits", v.ended("loop/asked", "failed", "ENVELOPE_INVALID")),
    "it keeps a process": ("waits", v.asked("loop/asked", interactive_profile={"kind": "sticky_process"})),
    "no session id is shown": ("waits", v.asked("loop/asked", engine_session_handle=None)),
    "the question has lost an option": ("waits", v.question("loop/question", options=["red"])),
    "the question is of another kind": ("waits", v.question("loop/question", kind="open_text")),
    "the restart failed it": ("survives-kill", v.ended("loop/restarted", "failed", "SESSION_RESUME_FAILED")),
    "the restart asks anew": ("survives-kill", v.question("loop/question-again", interaction_id="q2")),
    "the restart lost the id": ("survives-kill", v.asked("loop/restarted", engine_session_handle=None)),
    "the reply is refused": ("survives-kill", v.reply("loop/reply", 409)),
    "the first turn is forgotten": ("context-carried", v.turn("loop/turn-2", "elsewhere/turn-1")),
    "the next session is another": (
        "context-carried",
        t.resumed("loop/turn-2", "loop/turn-1", stdout=FRESH, own_arguments=v.ARGV),
    ),
    "the run fails in the end": ("final-data", v.ended("loop/ended", "failed", "FINAL_DATA_INVALID")),
    "the data is empty": ("final-data", v.ended("loop/ended", data={})),
    "the data is another": ("final-data", v.ended("loop/ended", data={"colour": "green"})),
    "a turn is told that was not run": ("final-data", v.call("loop/ended-turns", {"turns": [{}, {}, {}]})),
    "a flag on a resume": (
        "no-auto-flags",
        v.turn("loop/turn-2", "loop/turn-1", argv=("codex", *v.ARGV, "--sandbox", "workspace-write")),
    ),
    "a flag that the server admits": (
        "no-auto-flags",
        v.turn("one-reply/turn-1", argv=("codex", "--yolo", "-"), own_arguments=("--yolo", "-")),
    ),
    "no argv is told": ("no-auto-flags", v.turn("loop/turn-2", "loop/turn-1", own_arguments=())),
    "another argv is told": ("no-auto-flags", v.turn("loop/turn-1", own_arguments=("exec", "--quiet"))),
    "a request shows approval": (
        "no-auto-flags",
        v.turn("loop/turn-1", requests=(t.exchange(body=b"`sandbox_mode` is `workspace-write`"),)),
    ),
    "the dead is resumed": ("dead-handle", v.ended("dead-handle/ended")),
    "the dead is a failed engine": ("dead-handle", v.ended("dead-handle/ended", "failed", "ENGINE_FAILED")),
    "the reply to the dead is refused": ("dead-handle", v.reply("dead-handle/reply", 409)),
    "it waits without an id": ("missing-handle", v.asked("missing-handle/ended")),
    "a refusal is a success": ("engine-failure", v.ended("engine-failure/ended")),
    "a refusal never ends": ("engine-failure", v.asked("engine-failure/ended", state="running")),
    "a bad question waits": ("bad-envelope", v.asked("bad-envelope/ended")),
    "the cancel is refused": ("cancel", v.call("cancel/cancel", {}, 409, {})),
    "the cancel does nothing": ("cancel", v.ended("cancel/ended", "failed", "TURN_TIMEOUT")),
    "the engine goes on": ("cancel", v.turn("cancel/turn-1", leftovers=(t.leftover("codex", "exec"),))),
    "two replies are taken": ("one-reply", v.reply(f"one-reply/reply-{RACERS}")),
    "no reply is taken": ("one-reply", v.reply("one-reply/reply-1", 409)),
    "a repeated reply is refused": ("one-reply", v.reply("one-reply/repeated-2", 409)),
    "a repeated reply is answered anew": ("one-reply", v.reply("one-reply/repeated-3", answer={"links": {"a": 1}})),
    "it fails after the replies": ("one-reply", v.ended("one-reply/ended", "failed", "ENGINE_FAILED")),
    "a turn is not told": ("one-reply", v.call("one-reply/ended-turns", {"turns": [{}, {}]})),
    "a refused reply is sent": (
        "one-reply",
        v.turn("one-reply/turn-2", "one-reply/turn-1", f"one-reply/reply-{RACERS}"),
    ),
}


@each("clause", CLAUSES)
def test_good_visits_pass(clause: str) -> None:
    """Good server runs pass every clause, with evidence."""
    finding = t.check(clause, *v.good())
    assert finding.ok, finding.detail
    assert set(finding.evidence) <= {item.name for item in v.good()}
    assert finding.evidence


@each("spoilt", SPOILT)
def test_what_goes_wrong_fails_its_clause(spoilt: str) -> None:
    """Each single fault fails the clause that covers it, with evidence."""
    name, sight = SPOILT[spoilt]
    finding = t.check(f"server.{name}", *v.good(sight))
    assert not finding.ok
    assert finding.evidence


def test_every_clause_can_fail() -> None:
    """The faults above cover every clause."""
    assert {f"server.{name}" for name, _ in SPOILT.values()} == set(CLAUSES)


@pytest.mark.parametrize("clause, case, turns", [("final-data", "loop", 2), ("one-reply", "one-reply", 3)])
def test_a_start_too_many_is_seen(clause: str, case: str, turns: int) -> None:
    """The clause fails if the engine was started more often than the server reports."""
    extra = v.turn(f"{case}/turn-{turns + 1}", f"{case}/turn-{turns}", text=ANSWER)
    finding = t.check(f"server.{clause}", *v.good(), extra)
    assert not finding.ok
    assert f"started {turns + 1} times, for {turns} turns" in finding.detail


@pytest.mark.parametrize(
    "clause, sight, why",
    [
        ("missing-handle", v.turn("missing-handle/turn-1"), "was not hidden from the server"),
        ("missing-handle", v.turn("missing-handle/turn-1", requests=()), "was not sent to the model"),
        ("engine-failure", v.turn("engine-failure/turn-1"), "received no request"),
        ("bad-envelope", v.turn("bad-envelope/turn-1", stdout=b""), "returned no answer"),
    ],
)
def test_what_was_not_put_to_the_test_is_left_open(clause: str, sight: Observation, why: str) -> None:
    """The clause is not run if the case did not cause the situation that it tests."""
    with pytest.raises(NotObservedError, match=why):
        t.check(f"server.{clause}", *v.good(sight))


def test_an_engine_that_hangs_is_to_be_ended_by_the_limit() -> None:
    """If the contract declares that a refused turn hangs, only a timeout passes."""
    reported, late = v.good(), v.good(v.ended("engine-failure/ended", "failed", "TURN_TIMEOUT"))
    assert not t.check("server.engine-failure", *reported, contract=CLAUDE).ok
    assert t.check("server.engine-failure", *late, contract=CLAUDE).ok
    assert not t.check("server.engine-failure", *late).ok


def test_no_step_of_a_case_is_missed_in_silence() -> None:
    """If a case was stopped, its clauses are not run and report why."""
    for case in RESUMED_CASES:
        observed = [item for item in v.good() if not item.name.startswith(f"{case.name}/")]
        asking = [id_ for id_ in CLAUSES if case.name in CHECKS[id_].cases]
        assert asking
        for clause in asking:
            if clause == "server.no-auto-flags" and case.name == "one-reply":
                continue
            with pytest.raises(NotObservedError, match="it broke"):
                t.check(clause, *observed, stopped={case.name: Obstacle("it broke")})
