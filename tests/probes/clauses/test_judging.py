"""Judging: which clauses are asked when, and what becomes of a finding."""

import pytest

from tests.probes import turns as t
from turngate.contract.clauses import Reason, Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.process import Ended
from turngate_probes.clauses import CHECKS, judge_all
from turngate_probes.clauses.gate import CASE
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.clauses.registry import how_it_ended, went_well
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import Observations, Turn
from turngate_probes.server_level.cases import SERVER_CASES

LEVELS = ("static", "hermetic")
RENAMED = t.printed().replace(b"thread_id", b"session_id")
VERSION = t.page("static/version", "codex-cli 0.169.0")


def judged(seen: Observations, *done: str) -> dict[str, ClauseResult]:
    """Judge all that can be judged once these cases are done."""
    results: dict[str, ClauseResult] = {}
    judge_all(seen, results, LEVELS, set(done))
    return results


def test_every_clause_of_a_probe_has_a_check_and_every_check_a_clause() -> None:
    """Catalogue and checks name the same clauses, and checks wait for cases that exist."""
    assert set(CHECKS) == catalogue().keys()
    known = {case.name for case in (*CASES, *SERVER_CASES)} | {EVERYTHING, CASE}
    assert {case for check in CHECKS.values() for case in check.cases} <= known


def test_every_check_says_what_it_looks_at() -> None:
    """Each check has a sentence of its own."""
    assert all(check.run.__doc__ for check in CHECKS.values())


def test_a_clause_waits_for_its_cases_and_needs() -> None:
    """A clause is asked once its cases are done and what it needs is judged, and only once."""
    seen = t.seen(VERSION)
    results: dict[str, ClauseResult] = {}
    assert judge_all(seen, results, LEVELS, set()) == []
    assert [found.id for found in judge_all(seen, results, LEVELS, {"static"})] == [
        "version.readable", "help.surface",
    ]  # fmt: skip
    assert judge_all(seen, results, LEVELS, {"static"}) == []
    assert "text.imitation" not in judged(t.seen(), "imitation")


def test_levels_choose_the_clauses() -> None:
    """At level static nothing else is judged."""
    results: dict[str, ClauseResult] = {}
    judge_all(t.seen(VERSION), results, ("static",), {case.name for case in CASES} | {EVERYTHING})
    assert set(results) == {"version.readable", "help.surface"}


def test_a_failed_need_is_no_failure_of_its_own() -> None:
    """What needs the id is not run when there is none, and says why."""
    results = judged(t.seen(t.turn("main/first", RENAMED)), "main", "bad-handles", "auto")
    assert results["handle.present"].result is Result.FAIL
    assert results["resume.accepted"].result is Result.NOT_RUN
    assert results["resume.accepted"].detail == "needs handle.present, which is fail"
    assert results["resume.context-carried"].detail == "needs resume.accepted, which is not_run"


def test_what_was_not_seen_is_not_run() -> None:
    """What of the environment stopped a case becomes the detail, and the reason."""
    stopped = {"main": Obstacle("interrupted", Reason.INTERRUPTED)}
    found = judged(t.seen(stopped=stopped), "main")["handle.present"]
    assert (found.result, found.detail) == (Result.NOT_RUN, "main/first was not seen: interrupted")
    assert found.reason is Reason.INTERRUPTED


def test_a_declared_symptom_deviates() -> None:
    """A symptom that the contract declares for this release is a deviation, with its compensation."""
    found = judged(t.seen(t.hung("stdin-open/first")), "stdin-open")["stdin.open"]
    assert found.result is Result.DEVIATES
    assert found.action.startswith("close standard input")


def test_a_declared_symptom_that_did_not_occur_is_stale() -> None:
    """A deviation that the release does not show any more passes, marked."""
    found = judged(t.seen(t.turn("stdin-open/first")), "stdin-open")["stdin.open"]
    assert (found.result, found.stale) == (Result.PASS, True)


@pytest.mark.parametrize(
    "turn, well, told",
    [
        (t.turn("a/b"), True, "exit code 0"),
        (t.refused("a/b"), False, "exit code 1: Error: no such thing"),
        (t.turn("a/b", t.printed(text=None, failure="no key")), False, "exit code 0: no key"),
        (t.turn("a/b", exit_code=1, stderr=b"TypeError: x\n    }\n  42\n"), False, "exit code 1: TypeError: x"),
        (
            t.turn("a/b", exit_code=1, stderr=b"Error: gone\n    at f (x.js:1)\n\nNode.js v20\n"),
            False,
            "exit code 1: Error: gone",
        ),
        (
            t.turn("a/b", exit_code=1, stderr=b'No key.\n\n<Execution Info>\n{"id": "x"}\n</Execution Info>\n'),
            False,
            "exit code 1: No key.",
        ),
        (t.turn("a/b", exit_code=1, stderr=b"<Info>\n{}\n</Info>"), False, "exit code 1"),
        (t.turn("a/b", exit_code=1, stderr=b"see\n</Info>"), False, "exit code 1: </Info>"),
        (t.turn("a/b", dropped=7), True, "exit code 0; 7 bytes more were not kept"),
        (t.hung("a/b", dropped=7), False, "still running after 21 s; 7 bytes more were not kept"),
        (t.hung("a/b"), False, "still running after 21 s"),
        (t.turn("a/b", exit_code=None), False, "exit code None"),
        (t.turn("a/b", ended=Ended.TIMEOUT), False, "still running after 21 s"),
    ],
)
def test_how_a_turn_ended_is_told(turn: Turn, *, well: bool, told: str) -> None:
    """Only exit code 0 by itself without a told failure is well; the words name the reason that was given."""
    assert (went_well(turn), how_it_ended(turn)) == (well, told)
