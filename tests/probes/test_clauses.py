"""Judging clauses: which are checked when, how a finding is judged, and why a clause was not run."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.test_process import each_recorded_release
from tests.probes import turns as t
from tests.probes.clauses import test_sticky as sticky
from tests.probes.server_level import server_runs as v
from turngate.contract import load
from turngate.contract.clauses import Reason, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, Verdict, unexplained, verdict
from turngate_probes.clauses import CHECKS, judge_all
from turngate_probes.clauses.gate import CASE
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES, FAILING
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import Observation, Observations
from turngate_probes.record import replay
from turngate_probes.server_level.cases import SERVER_CASES

LEVELS = ("static", "hermetic")
STATIC = [clause.id for clause in catalogue().at_level("static")]
RENAMED = t.printed().replace(b"thread_id", b"session_id")
VERSION = t.page("static/version", "codex-cli 0.169.0")
NO_ID = Obstacle("the previous turn reported no session id", by_engine=True)
LOST = Obstacle("the run does not wait for its user: failed: INTERACTION_PROCESS_LOST", by_engine=True)
ABSENT = Obstacle("there is no recording of it", Reason.NO_RECORDING)
FINISHED = {case.name for case in (*CASES, *SERVER_CASES)}
BY_ENGINE = st.builds(Obstacle, st.just("the engine did something"), st.none(), st.just(value=True))
BY_ENVIRONMENT = st.builds(Obstacle, st.just("the machine did something"), st.sampled_from(Reason))


def judged(observed: Observations, *done: str) -> dict[str, ClauseResult]:
    """Judge every clause that can be judged once these cases are done."""
    results: dict[str, ClauseResult] = {}
    judge_all(observed, results, LEVELS, set(done))
    return results


def test_every_clause_of_a_probe_has_a_check_and_every_check_a_clause() -> None:
    """Catalogue and checks name the same clauses, and checks wait only for existing cases."""
    assert set(CHECKS) == catalogue().keys()
    known = {case.name for case in (*CASES, *SERVER_CASES)} | {EVERYTHING, CASE}
    assert {case for check in CHECKS.values() for case in check.cases} <= known


def test_every_check_says_what_it_looks_at() -> None:
    """Each check has a sentence of its own."""
    assert all(check.run.__doc__ for check in CHECKS.values())


def test_a_clause_waits_for_its_cases_and_needs() -> None:
    """A clause is checked once, after its cases are done and its prerequisites are judged."""
    observed = t.observed(VERSION)
    results: dict[str, ClauseResult] = {}
    assert judge_all(observed, results, LEVELS, set()) == []
    assert [result.id for result in judge_all(observed, results, LEVELS, {"static", "listings"})] == STATIC
    assert judge_all(observed, results, LEVELS, {"static", "listings"}) == []
    assert "text.imitation" not in judged(t.observed(), "imitation")


def test_levels_choose_the_clauses() -> None:
    """At level static only static clauses are judged."""
    results: dict[str, ClauseResult] = {}
    judge_all(t.observed(VERSION), results, ("static",), {case.name for case in CASES} | {EVERYTHING})
    assert set(results) == {*STATIC}


def test_a_failed_need_is_no_failure_of_its_own() -> None:
    """Without a session id, clauses that need it are not run, and say why."""
    results = judged(t.observed(t.turn("main/first", RENAMED)), "main", "bad-handles", "auto")
    assert results["handle.present"].result is Result.FAIL
    assert results["resume.accepted"].result is Result.NOT_RUN
    assert results["resume.accepted"].detail == "needs handle.present, which failed"
    assert results["resume.context-carried"].detail == "needs resume.accepted, which was not run"


def test_what_was_not_seen_is_not_run() -> None:
    """If the environment stopped a case, its clause is not run, with that detail and reason."""
    stopped = {"main": Obstacle("interrupted", Reason.INTERRUPTED)}
    result = judged(t.observed(stopped=stopped), "main")["handle.present"]
    assert (result.result, result.detail) == (Result.NOT_RUN, "main/first was not observed: interrupted")
    assert result.reason is Reason.INTERRUPTED


def test_a_declared_symptom_deviates() -> None:
    """A symptom that the contract declares for this release is a deviation, with its workaround."""
    result = judged(t.observed(t.turn("main/first"), t.hung("stdin-open/first")), "main", "stdin-open")["stdin.open"]
    assert result.result is Result.DEVIATES
    assert result.action.startswith("close standard input")


def test_a_declared_symptom_that_did_not_occur_is_stale() -> None:
    """If a declared deviation doesn't occur any more, the clause passes and is marked stale."""
    result = judged(t.observed(t.turn("main/first"), t.turn("stdin-open/first")), "main", "stdin-open")["stdin.open"]
    assert (result.result, result.stale) == (Result.PASS, True)


@pytest.mark.parametrize("clause", ["prompt.large", "stdin.open", "auto.flags-accepted"])
def test_a_turn_that_fails_like_every_other_says_nothing_about_its_clause(clause: str) -> None:
    """A turn that did not end properly fails its clause only if good turns do end properly."""
    name = f"{CHECKS[clause].cases[0]}/first"
    turn = t.hung(name) if clause == "stdin.open" else t.refused(name)
    failed = judge_levels(t.observed(t.refused("main/first"), turn), "hermetic")[clause]
    assert (failed.result, failed.needs, failed.evidence) == (Result.NOT_RUN, ("turn.terminal-event",), (name,))
    assert "needs turn.terminal-event, which failed" in failed.detail
    alone = judge_levels(t.observed(t.turn("main/first"), turn), "hermetic")[clause]
    assert alone.result is (Result.DEVIATES if clause == "stdin.open" else Result.FAIL)


def test_a_failing_backend_is_judged_only_of_an_engine_that_works() -> None:
    """An engine that fails every turn has not shown that it reports a failing backend."""
    failing = [t.refused(f"{case}/first") for case in FAILING]
    result = judge_levels(t.observed(t.refused("main/first"), *failing), "hermetic")["backend.failure-told"]
    assert (result.result, result.needs) == (Result.NOT_RUN, ("turn.terminal-event",))


def judge_levels(observed: Observations, *levels: str) -> dict[str, ClauseResult]:
    """Judge every clause of some levels."""
    results: dict[str, ClauseResult] = {}
    judge_all(observed, results, levels, FINISHED | {EVERYTHING})
    return results


def headless() -> list[Observation]:
    """Return the observations of a good release without the server level."""
    resumed = [t.resumed("main/again", "main/first"), t.resumed("main/third", "main/first", "main/again")]
    later = [t.turn("later-minute/a-first"), t.resumed("later-minute/a-again", "later-minute/a-first")]
    failing = [t.turn(f"{case}/first", t.printed(text=None, failure="no"), exit_code=1) for case in FAILING]
    names = " ".join(word for page in t.CODEX.help.pages for word in page.names)
    return [
        t.page("static/version", "codex-cli 0.169.0"),
        t.page("static/help-1", names),
        t.page("static/help-2", names),
        t.turn("main/first"),
        *resumed,
        t.resumed("main/elsewhere", "main/first"),
        *later,
        t.turn("auto/first"),
        t.resumed("auto/again", "auto/first"),
        t.turn("flag-prompts/first"),
        t.turn("imitation/first"),
        t.turn("bad-handles/first"),
        t.refused("bad-handles/dead"),
        t.refused("bad-handles/malformed"),
        t.turn("large-prompt/first"),
        t.turn("stdin-open/first"),
        *failing,
    ]


SEEN: dict[tuple[str, ...], list[Observation]] = {
    ("static", "hermetic"): headless(),
    ("server",): [*v.good(), *sticky.good()],
}


def reported(results: Iterable[ClauseResult]) -> list[str]:
    """Name the clauses that were not run without a reason."""
    return [result.id for result in unexplained(results)]


@pytest.mark.parametrize("clause", ["prompt.not-a-flag", "auto.flags-accepted"])
def test_a_session_id_that_is_missing_in_one_case_fails_its_clause(clause: str) -> None:
    """If only one case's first turn has no session id, the clause of that case fails because of the engine."""
    case = CHECKS[clause].cases[0]
    observed = t.observed(t.turn("main/first"), t.turn(f"{case}/first", t.printed(None)), stopped={case: NO_ID})
    result = judge_levels(observed, "hermetic")[clause]
    assert "no session id" in result.detail or clause == "prompt.not-a-flag"
    assert result.result is Result.FAIL


@pytest.mark.parametrize("clause", ["prompt.not-a-flag", "auto.flags-accepted"])
def test_a_session_id_that_is_missing_everywhere_fails_its_own_clause_alone(clause: str) -> None:
    """Without a session id in any turn, only the clause about it fails, and clauses that need it are not run."""
    case, text = CHECKS[clause].cases[0], "--help"
    request = t.exchange("n", texts=(text,))
    first = t.turn(f"{case}/first", t.printed(None), prompt=text, nonce="n", requests=(request,))
    observed = t.observed(
        t.turn("main/first", t.printed(None)), first, stopped={case: NO_ID, "main": NO_ID}, absent=ABSENT
    )
    results = judge_levels(observed, "hermetic")
    assert results["handle.present"].result is Result.FAIL
    assert (results[clause].result, results[clause].needs) == (Result.NOT_RUN, ("handle.present",))
    assert reported(results.values()) == []


def test_a_sticky_process_that_is_lost_fails_the_clause_that_names_it() -> None:
    """If the sticky process exits after its first turn, only the clause about that fails; the others are not run."""
    asked = v.ended("sticky/asked", "failed", "INTERACTION_PROCESS_LOST")
    stopped = {"sticky": LOST, "sticky-ends": LOST}
    results = judge_levels(t.observed(*v.good(), asked, stopped=stopped), "server")
    about = {name: result for name, result in results.items() if name.startswith("sticky.")}
    assert about["sticky.one-process"].result is Result.FAIL
    assert about["sticky.one-process"].evidence == ("sticky/asked",)
    assert "INTERACTION_PROCESS_LOST" in about["sticky.one-process"].detail
    # in the protocol of an app server, no text can follow the end of a turn
    assert about.pop("sticky.text-before-end").result is Result.UNSUPPORTED
    rest = [result for name, result in about.items() if name != "sticky.one-process"]
    assert {(result.result, result.needs) for result in rest} == {(Result.NOT_RUN, ("sticky.one-process",))}
    assert reported(results.values()) == []


def test_what_turngate_did_itself_is_a_bug() -> None:
    """A case that our own server stopped, or that never ran, leaves its clauses without a reason."""
    server = Obstacle("the server itself failed")
    results = judge_levels(t.observed(*sticky.good(), stopped={"loop": server}), "server")
    assert "server.waits" in reported(results.values())
    assert "handle.present" in reported(judge_levels(t.observed(), "hermetic").values())


@settings(deadline=None)
@given(st.data(), st.sampled_from(list(SEEN)))
def test_every_clause_that_is_not_run_says_why(data: st.DataObject, levels: tuple[str, ...]) -> None:
    """However cases were stopped, by the engine or by the environment, no clause is left without a reason.

    A breaking clause that was not run leaves the release unanswered, unless another one failed.
    """
    stopped = data.draw(st.dictionaries(st.sampled_from(sorted(FINISHED)), BY_ENGINE | BY_ENVIRONMENT))
    left = [item for item in SEEN[levels] if item.case not in stopped or data.draw(st.booleans())]
    results = judge_levels(
        t.observed(*left, stopped=stopped, finished=FINISHED - set(stopped), hosts=set(), changed=""), *levels
    )
    assert set(results) == {clause.id for clause in load.catalogue().at_level(*levels)}
    assert reported(results.values()) == []
    breaking = {result.result for result in results.values() if result.severity is Severity.BREAKING}
    worth = verdict(results.values())
    assert (worth is Verdict.BROKEN) == (Result.FAIL in breaking)
    assert (worth is Verdict.UNANSWERED) == (Result.NOT_RUN in breaking and Result.FAIL not in breaking)


@settings(deadline=None)
@given(st.data(), st.sampled_from(list(SEEN)))
def test_what_only_the_environment_stops_fails_nothing(data: st.DataObject, levels: tuple[str, ...]) -> None:
    """A case that a full disk or an interrupt stopped makes no other clause fail."""
    whole = judge_levels(t.observed(*SEEN[levels], finished=FINISHED, hosts=set(), changed=""), *levels)
    stopped = data.draw(st.dictionaries(st.sampled_from(sorted(FINISHED)), BY_ENVIRONMENT, min_size=1))
    left = [item for item in SEEN[levels] if item.case not in stopped]
    observed = t.observed(*left, stopped=stopped, finished=FINISHED - set(stopped), hosts=set(), changed="")
    failed = {name for name, result in judge_levels(observed, *levels).items() if result.result is Result.FAIL}
    assert failed <= {name for name, result in whole.items() if result.result is Result.FAIL}


@each_recorded_release
def test_no_recorded_release_leaves_a_clause_without_a_reason(engine: str, version: str) -> None:
    """In every recorded release, each clause has a result, needs one that failed, or can't be recorded."""
    results = judge_levels(replay.replay(load.contract(engine).at(version)), "static", "hermetic")
    assert reported(results.values()) == []
    assert {result.reason for result in results.values()} <= {None, Reason.NO_RECORDING}
