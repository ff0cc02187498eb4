"""What kept a clause from being run: the engine fails one that names it, and every other reason is told by name."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drift.judging import recorded
from tests.probes import turns as t
from tests.probes.clauses import test_sticky as sticky
from tests.probes.server_level import server_runs as v
from turngate.contract import load
from turngate.contract.clauses import Reason, Result, Severity
from turngate.contract.verdict import ClauseResult, Verdict, unexplained, verdict
from turngate.errors import ContractError, EnvironmentFailed, RefusedError
from turngate_probes.clauses import CHECKS, judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES, FAILING
from turngate_probes.harness.interrupt import Interrupt, Obstacle, ObstacleError
from turngate_probes.harness.observations import Observation, Observations
from turngate_probes.record import replay
from turngate_probes.server_level.cases import SERVER_CASES

NO_ID = Obstacle("the turn before reported no session id", by_engine=True)
LOST = Obstacle("the run does not wait with its process: failed: INTERACTION_PROCESS_LOST", by_engine=True)
ABSENT = Obstacle("there is no recording of it", Reason.NO_RECORDING)
FINISHED = {case.name for case in (*CASES, *SERVER_CASES)}
BY_ENGINE = st.builds(Obstacle, st.just("the engine did something"), st.none(), st.just(value=True))
BY_ENVIRONMENT = st.builds(Obstacle, st.just("the machine did something"), st.sampled_from(Reason))


def judged(seen: Observations, *levels: str) -> dict[str, ClauseResult]:
    """Judge everything of some levels."""
    results: dict[str, ClauseResult] = {}
    judge_all(seen, results, levels, FINISHED | {EVERYTHING})
    return results


def headless() -> list[Observation]:
    """Return all that is seen of a good release without the server."""
    resumed = [t.resumed("main/again", "main/first"), t.resumed("main/third", "main/first", "main/again")]
    later = [t.turn("later-minute/a-first"), t.resumed("later-minute/a-again", "later-minute/a-first")]
    failing = [t.turn(f"{case}/first", t.printed(text=None, failure="no"), exit_code=1) for case in FAILING]
    names = " ".join(word for page in t.CODEX.help.pages for word in page.names)
    return [
        t.page("static/version", "codex-cli 0.169.0"), t.page("static/help-1", names), t.page("static/help-2", names),
        t.turn("main/first"), *resumed, t.resumed("main/elsewhere", "main/first"), *later, t.turn("auto/first"),
        t.resumed("auto/again", "auto/first"), t.turn("flag-prompts/first"), t.turn("imitation/first"),
        t.turn("bad-handles/first"), t.refused("bad-handles/dead"), t.refused("bad-handles/malformed"),
        t.turn("large-prompt/first"), t.turn("stdin-open/first"), *failing,
    ]  # fmt: skip


SEEN: dict[tuple[str, ...], list[Observation]] = {
    ("static", "hermetic"): headless(),
    ("server",): [*v.good(), *sticky.good()],
}


def told(results: Iterable[ClauseResult]) -> list[str]:
    """Name the clauses that were not run for no reason."""
    return [each.id for each in unexplained(results)]


@pytest.mark.parametrize("clause", ["prompt.not-a-flag", "auto.flags-accepted"])
def test_a_session_id_that_is_missing_in_one_case_fails_its_clause(clause: str) -> None:
    """The first turn of the case printed none, while others did: what could not be played is the engine's doing."""
    case = CHECKS[clause].cases[0]
    seen = t.seen(t.turn("main/first"), t.turn(f"{case}/first", t.printed(None)), stopped={case: NO_ID})
    found = judged(seen, "hermetic")[clause]
    assert "no session id" in found.detail or clause == "prompt.not-a-flag"
    assert found.result is Result.FAIL


@pytest.mark.parametrize("clause", ["prompt.not-a-flag", "auto.flags-accepted"])
def test_a_session_id_that_is_missing_everywhere_fails_its_own_clause_alone(clause: str) -> None:
    """Where no turn prints an id that is what fails, and what can't be played names it."""
    case, text = CHECKS[clause].cases[0], "--help"
    request = t.exchange("n", texts=(text,))
    first = t.turn(f"{case}/first", t.printed(None), prompt=text, nonce="n", requests=(request,))
    seen = t.seen(t.turn("main/first", t.printed(None)), first, stopped={case: NO_ID, "main": NO_ID}, absent=ABSENT)
    results = judged(seen, "hermetic")
    assert results["handle.present"].result is Result.FAIL
    assert (results[clause].result, results[clause].needs) == (Result.NOT_RUN, ("handle.present",))
    assert told(results.values()) == []


def test_a_kept_process_that_is_lost_fails_the_clause_that_names_it() -> None:
    """It exits after its first turn: a process for all turns there is not; the rest needs one."""
    asked = v.ended("sticky/asked", "failed", "INTERACTION_PROCESS_LOST")
    stopped = {"sticky": LOST, "sticky-ends": LOST}
    results = judged(t.seen(*v.good(), asked, stopped=stopped), "server")
    sticky = {name: found for name, found in results.items() if name.startswith("sticky.")}
    assert sticky["sticky.one-process"].result is Result.FAIL
    assert sticky["sticky.one-process"].evidence == ("sticky/asked",)
    assert "INTERACTION_PROCESS_LOST" in sticky["sticky.one-process"].detail
    rest = [found for name, found in sticky.items() if name != "sticky.one-process"]
    assert {(found.result, found.needs) for found in rest} == {(Result.NOT_RUN, ("sticky.one-process",))}
    assert told(results.values()) == []


def test_what_turngate_did_itself_is_a_bug() -> None:
    """A case that our own server stopped, and one that nobody played, leave clauses without a reason."""
    server = Obstacle("the server itself failed")
    results = judged(t.seen(*sticky.good(), stopped={"loop": server}), "server")
    assert "server.waits" in told(results.values())
    assert "handle.present" in told(judged(t.seen(), "hermetic").values())


@pytest.mark.parametrize(
    "error, reason", [
        (EnvironmentFailed("no disk"), Reason.MACHINE), (RefusedError("no such option"), Reason.CONTRACT),
        (ContractError("no such slot"), Reason.CONTRACT), (ObstacleError("our server failed"), None),
        (ObstacleError("interrupted", Reason.INTERRUPTED), Reason.INTERRUPTED), (ValueError("crash"), None),
    ],
)  # fmt: skip
def test_what_an_error_stands_for(error: Exception, reason: Reason | None) -> None:
    """Each error that may end a case has its reason; what is unknown has none, and is nobody's but ours."""
    found = Interrupt().why(error)
    assert (found.reason, found.by_engine) == (reason, False)
    assert found.text


def test_an_interrupt_is_the_reason_whatever_failed() -> None:
    """What fails once the probe is interrupted says nothing, neither of the engine nor of turngate."""
    interrupt = Interrupt()
    interrupt.set()
    assert interrupt.why(ObstacleError("connection refused", by_engine=True)).reason is Reason.INTERRUPTED


@given(st.data(), st.sampled_from(list(SEEN)))
def test_every_clause_that_is_not_run_says_why(data: st.DataObject, levels: tuple[str, ...]) -> None:
    """However cases were stopped, by the engine or by the environment, no clause is left without a reason.

    A breaking clause that was not run leaves the release unanswered, unless another one failed.
    """
    stopped = data.draw(st.dictionaries(st.sampled_from(sorted(FINISHED)), BY_ENGINE | BY_ENVIRONMENT))
    left = [each for each in SEEN[levels] if each.name.partition("/")[0] not in stopped or data.draw(st.booleans())]
    results = judged(t.seen(*left, stopped=stopped, finished=FINISHED - set(stopped), hosts=set(), changed=""), *levels)
    assert set(results) == {clause.id for clause in load.catalogue().at_level(*levels)}
    assert told(results.values()) == []
    breaking = {each.result for each in results.values() if each.severity is Severity.BREAKING}
    worth = verdict(results.values())
    assert (worth is Verdict.BROKEN) == (Result.FAIL in breaking)
    assert (worth is Verdict.UNANSWERED) == (Result.NOT_RUN in breaking and Result.FAIL not in breaking)


@given(st.data(), st.sampled_from(list(SEEN)))
def test_what_only_the_environment_stops_fails_nothing(data: st.DataObject, levels: tuple[str, ...]) -> None:
    """A case that a full disk or an interrupt stopped makes no clause fail that would not fail without it."""
    whole = judged(t.seen(*SEEN[levels], finished=FINISHED, hosts=set(), changed=""), *levels)
    stopped = data.draw(st.dictionaries(st.sampled_from(sorted(FINISHED)), BY_ENVIRONMENT, min_size=1))
    left = [each for each in SEEN[levels] if each.name.partition("/")[0] not in stopped]
    seen = t.seen(*left, stopped=stopped, finished=FINISHED - set(stopped), hosts=set(), changed="")
    failed = {name for name, each in judged(seen, *levels).items() if each.result is Result.FAIL}
    assert failed <= {name for name, each in whole.items() if each.result is Result.FAIL}


@pytest.mark.parametrize("engine,version", recorded())
def test_no_recorded_release_leaves_a_clause_without_a_reason(engine: str, version: str) -> None:
    """Of every recorded release each clause is answered, or needs one that was, or is not recorded."""
    results = judged(replay.replay(load.contract(engine).at(version)), "static", "hermetic")
    assert told(results.values()) == []
    assert {each.reason for each in results.values()} <= {None, Reason.NO_RECORDING}
