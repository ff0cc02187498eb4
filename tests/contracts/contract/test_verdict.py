from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.contracts.releases import NEWEST
from tests.tables import each
from turngate.contract.clauses import Clause, Reason, Result, Severity
from turngate.contract.engine_contract import Deviation
from turngate.contract.verdict import (
    ClauseResult,
    FailOn,
    Finding,
    Verdict,
    capability,
    clause_result,
    exit_code,
    fallen,
    fallen_needs,
    profile,
    unexplained,
    verdict,
    verdict_of_selected,
)
from turngate.model import EngineResumeCapability

BREAKING, DEGRADED, INFORMATIVE = Severity.BREAKING, Severity.DEGRADED, Severity.INFORMATIVE
HANG, QUIET = Deviation("resume.dead-handle", "hang", "bound it"), Deviation("resume.dead-handle", "quiet", "look")


def clause(severity: Severity = BREAKING, id_: str = "resume.dead-handle", *, baseline: bool = False) -> Clause:
    """Return a clause without prerequisites."""
    return Clause(id_, "It holds.", "It matters.", "Do it.", "hermetic", severity, baseline=baseline)


def result(severity: Severity, came: Result, id_: str = "resume.dead-handle") -> ClauseResult:
    """Return the result of such a clause."""
    return ClauseResult.of(clause(severity, id_), came, "as seen")


def judge(finding: Finding, *declared: Deviation, baseline: bool = False) -> ClauseResult:
    """Judge a finding against declared deviations."""
    return clause_result(clause(baseline=baseline), finding, structs.replace(NEWEST["codex"], deviations=declared))


def fail(*symptoms: str) -> Finding:
    """Make a failed finding."""
    return Finding(ok=False, detail="it hung", symptoms=symptoms, evidence=("bad-handles/dead",))


@each(
    "severity, came, expected",
    [
        (BREAKING, Result.PASS, Verdict.COMPATIBLE),
        (BREAKING, Result.FAIL, Verdict.BROKEN),
        (BREAKING, Result.DEVIATES, Verdict.COMPATIBLE),
        (BREAKING, Result.UNSUPPORTED, Verdict.COMPATIBLE),
        (BREAKING, Result.NOT_RUN, Verdict.UNANSWERED),
        (DEGRADED, Result.PASS, Verdict.COMPATIBLE),
        (DEGRADED, Result.FAIL, Verdict.DEGRADED),
        (DEGRADED, Result.DEVIATES, Verdict.COMPATIBLE),
        (DEGRADED, Result.UNSUPPORTED, Verdict.COMPATIBLE),
        (DEGRADED, Result.NOT_RUN, Verdict.COMPATIBLE),
        (INFORMATIVE, Result.FAIL, Verdict.DEGRADED),
        *((INFORMATIVE, came, Verdict.COMPATIBLE) for came in Result if came is not Result.FAIL),
    ],
)
def test_one_result_beside_a_good_one(severity: Severity, came: Result, expected: Verdict) -> None:
    """Each result at each severity leads to this verdict for a release that is otherwise good."""
    assert verdict([result(BREAKING, Result.PASS), result(severity, came)]) is expected


@given(st.lists(st.sampled_from(list(product(Severity, Result))), min_size=1))
def test_worst_result_decides_whatever_the_order(pairs: list[tuple[Severity, Result]]) -> None:
    """A breaking failure outweighs an open question, which outweighs any other failure, in any order."""
    judgement = verdict(result(*pair) for pair in pairs)
    breaking = {came for severity, came in pairs if severity is BREAKING}
    assert judgement is verdict(result(*pair) for pair in reversed(pairs))
    assert (judgement is Verdict.BROKEN) == (Result.FAIL in breaking)
    assert (judgement is Verdict.UNANSWERED) == (Result.NOT_RUN in breaking and Result.FAIL not in breaking)


def test_nothing_judged_is_no_answer() -> None:
    """Without any result the verdict is unanswered."""
    assert verdict([]) is Verdict.UNANSWERED


def test_recordings_are_weighed_by_what_they_can_answer() -> None:
    """With recordings only, an open breaking clause is ignored, but a failed one breaks."""
    open_, good = result(BREAKING, Result.NOT_RUN), result(BREAKING, Result.PASS)
    assert verdict([open_, good], recordings_only=True) is Verdict.COMPATIBLE
    assert verdict([open_, result(BREAKING, Result.FAIL)], recordings_only=True) is Verdict.BROKEN
    assert verdict([open_], recordings_only=True) is Verdict.UNANSWERED


@each(
    "severity, came, expected",
    [
        (BREAKING, Result.FAIL, Verdict.BROKEN),
        (BREAKING, Result.NOT_RUN, Verdict.UNANSWERED),
        (DEGRADED, Result.NOT_RUN, Verdict.UNANSWERED),
        (DEGRADED, Result.FAIL, Verdict.DEGRADED),
        (INFORMATIVE, Result.DEVIATES, Verdict.COMPATIBLE),
    ],
)
def test_each_selected_clause_that_could_not_run_is_a_question_left_open(
    severity: Severity, came: Result, expected: Verdict
) -> None:
    """Each selected clause that could not run leaves the release unanswered, whatever its severity."""
    assert verdict_of_selected([result(BREAKING, Result.PASS), result(severity, came)]) is expected
    assert verdict_of_selected([result(BREAKING, Result.FAIL), result(severity, came)]) is Verdict.BROKEN


@each("stale", [False, True])
@each("caveats", [False, True])
@each("fail_on", list(FailOn))
@each(
    "verdicts",
    [
        [Verdict.COMPATIBLE],
        [Verdict.DEGRADED],
        [Verdict.UNANSWERED],
        [Verdict.UNANSWERED, Verdict.BROKEN],
        [Verdict.COMPATIBLE, Verdict.UNANSWERED],
        [],
    ],
)
def test_exit_code(verdicts: list[Verdict], fail_on: FailOn, caveats: bool, stale: bool) -> None:  # noqa: FBT001
    """The exit code is 1 for broken or what `fail_on` includes, 2 for unanswered, else 0."""
    code = exit_code(verdicts, fail_on, stale=stale, caveats=caveats)
    assert code == exit_code(verdicts[::-1], fail_on, stale=stale, caveats=caveats)
    if Verdict.BROKEN in verdicts:
        assert code == 1
    elif Verdict.UNANSWERED in verdicts or not verdicts:
        assert code == 2
    else:
        problems = {FailOn.DEGRADED: stale or Verdict.DEGRADED in verdicts}
        problems[FailOn.CAVEAT] = problems[FailOn.DEGRADED] or caveats
        assert code == problems.get(fail_on, False)


def test_undeclared_failure_fails() -> None:
    """An undeclared failure fails and names its symptom."""
    came = judge(fail("hang"))
    assert (came.result, came.detail, came.evidence) == (Result.FAIL, "it hung [hang]", ("bad-handles/dead",))


def test_declared_symptom_deviates_and_says_what_to_do() -> None:
    """A declared symptom deviates, and its action says what an orchestrator must do."""
    came = judge(fail("hang"), HANG)
    assert came.result is Result.DEVIATES
    assert (came.detail, came.action) == ("it hung", "bound it")
    assert not came.stale


def test_another_symptom_is_not_excused() -> None:
    """A deviation excuses only its own symptom, and no failure without a symptom."""
    assert judge(fail("quiet"), HANG).result is Result.FAIL
    assert judge(fail(), HANG).result is Result.FAIL


def test_every_symptom_must_be_declared() -> None:
    """If one of several symptoms isn't declared, the clause fails and names only that one."""
    came = judge(fail("hang", "quiet"), HANG)
    assert (came.result, came.detail) == (Result.FAIL, "it hung [quiet]")
    both = judge(fail("hang", "quiet"), HANG, QUIET)
    assert both.result is Result.DEVIATES
    assert both.action == "bound it; look"


def test_deviation_of_another_clause_excuses_nothing() -> None:
    """A deviation applies only to the clause that it names."""
    assert judge(fail("hang"), Deviation("stdin.open", "hang", "close it")).result is Result.FAIL


def test_deviation_that_no_longer_occurs_is_stale() -> None:
    """A pass despite a declared deviation is marked stale, in its detail too."""
    came = judge(Finding(ok=True, detail="refused"), HANG)
    assert (came.result, came.stale) == (Result.PASS, True)
    assert "stale" in came.detail
    assert "hang" in came.detail


def test_deviation_by_chance_is_never_stale() -> None:
    """A flaky deviation is excused when it occurs, and not stale when it doesn't."""
    chance = structs.replace(QUIET, flaky=True)
    spared = judge(Finding(ok=True, detail="refused"), chance)
    assert (spared.result, spared.stale) == (Result.PASS, False)
    assert spared.detail == "refused; known to occur now and then: quiet"
    assert spared.action == chance.action  # a lucky test is no reason to stop
    assert judge(fail("quiet"), chance).result is Result.DEVIATES
    came = judge(fail("hang"), HANG, chance)
    assert (came.result, came.stale) == (Result.DEVIATES, False)


def test_one_of_two_deviations_gone_is_stale() -> None:
    """If one of two declared symptoms doesn't occur, it is marked stale."""
    came = judge(fail("hang"), HANG, QUIET)
    assert (came.result, came.stale) == (Result.DEVIATES, True)
    assert "quiet did not occur" in came.detail


def test_baseline_takes_no_deviation() -> None:
    """A baseline fails even if a contract declares a deviation, and its pass is never stale."""
    assert judge(fail("hang"), HANG, baseline=True).result is Result.FAIL
    assert not judge(Finding(ok=True, detail="fine"), HANG, baseline=True).stale


@each(
    "came, said",
    [(Result.FAIL, "failed"), (Result.NOT_RUN, "was not run"), (Result.UNSUPPORTED, "is unsupported")],
)
def test_clause_whose_need_did_not_hold_is_not_run(came: Result, said: str) -> None:
    """A clause is not run if a prerequisite failed, did not run, or is missing."""
    dependent = structs.replace(clause(), needs=("handle.present",))
    judgement = fallen(dependent, dependent.needs, {"handle.present": result(BREAKING, came, "handle.present")})
    assert judgement is not None
    assert (judgement.result, judgement.detail) == (Result.NOT_RUN, f"needs handle.present, which {said}")
    assert judgement.needs == ("handle.present",)


@given(
    st.lists(
        st.tuples(st.sampled_from(Result), st.sampled_from([None, *Reason]), st.frozensets(st.integers(0, 7))),
        max_size=8,
    )
)
def test_a_clause_that_was_not_run_leads_to_a_reason(made: list[tuple[Result, Reason | None, frozenset[int]]]) -> None:
    """The reason is found through the prerequisites; unreachable clauses and cycles have none."""
    results = [
        structs.replace(result(BREAKING, came, f"a.{i}"), reason=reason, needs=tuple(f"a.{need}" for need in needs))
        for i, (came, reason, needs) in enumerate(made)
    ]
    explained = {
        row.id
        for row in results
        if row.result in (Result.FAIL, Result.DEVIATES, Result.UNSUPPORTED)
        or (row.result is Result.NOT_RUN and row.reason)
    }
    for _ in results:
        explained |= {row.id for row in results if row.result is Result.NOT_RUN and explained & set(row.needs)}
    not_run = {row.id for row in results if row.result is Result.NOT_RUN}
    assert {row.id for row in unexplained(results)} == not_run - explained


def test_need_that_nobody_judged_is_not_met() -> None:
    """A prerequisite without a result is not met."""
    judgement = fallen(clause(), ("handle.present",), {})
    assert judgement is not None
    assert judgement.detail == "needs handle.present, which is absent"


@pytest.mark.parametrize("came", [Result.PASS, Result.DEVIATES])
def test_clause_whose_need_held_is_asked(came: Result) -> None:
    """A prerequisite that passed or deviates as declared is met."""
    dependent = structs.replace(clause(), needs=("handle.present",))
    assert fallen(dependent, dependent.needs, {"handle.present": result(BREAKING, came, "handle.present")}) is None


@each("prefix", ["handle.place", "resume.context-carried"])
@each(
    "came, supported",
    [(Result.PASS, True), (Result.DEVIATES, True), (Result.FAIL, False)],
)
def test_resume_is_supported_when_all_about_it_held(prefix: str, came: Result, supported: bool) -> None:  # noqa: FBT001
    """Capability and profile follow the clauses of handle and resume."""
    judgement = capability([result(BREAKING, Result.PASS, "resume.accepted"), result(BREAKING, came, prefix)])
    assert judgement
    assert judgement.supported is supported
    assert profile(judgement).kind == ("resumable" if supported else "sticky_process")
    assert supported or judgement.detail.startswith(prefix)


def test_resume_is_supported_with_ids_of_an_unfamiliar_shape() -> None:
    """The shape of session ids says nothing about whether they can be resumed."""
    shape = result(Severity.DEGRADED, Result.FAIL, "handle.shape")
    judgement = capability([shape, result(BREAKING, Result.PASS, "resume.accepted")])
    assert judgement
    assert judgement.supported


@pytest.mark.parametrize("came", [None, Result.NOT_RUN])
def test_resume_that_was_not_tested_is_neither_supported_nor_refuted(came: Result | None) -> None:
    """Without a result about sessions, capability is unknown; a failure or a missing feature is a result."""
    untested = [result(BREAKING, came, "resume.accepted")] if came else []
    assert capability([*untested, result(BREAKING, Result.FAIL, "prompt.not-a-flag")]) is None
    failed = capability([*untested, result(BREAKING, Result.FAIL, "handle.present")])
    assert failed == EngineResumeCapability(supported=False, probe_method="command", detail="handle.present: as seen")
    lacking = capability([result(BREAKING, Result.NOT_RUN), result(BREAKING, Result.UNSUPPORTED, "handle.present")])
    assert lacking
    assert not lacking.supported


def test_clauses_about_other_things_do_not_decide_on_resume() -> None:
    """A failed clause about prompts doesn't affect the resume capability."""
    good, bad = result(BREAKING, Result.PASS, "resume.accepted"), result(BREAKING, Result.FAIL, "prompt.not-a-flag")
    able = capability([good, bad])
    assert able
    assert able.supported
    assert profile(able).session_timeout_sec == 1200


@each("declared", [(), (HANG,), (HANG, QUIET)])
@each("finding", [fail("hang"), Finding(ok=True, detail="fine", evidence=("good/first",))])
def test_judgement_keeps_its_clause_and_evidence(finding: Finding, declared: tuple[Deviation, ...]) -> None:
    """A result keeps the clause and evidence of its finding."""
    came = judge(finding, *declared)
    assert (came.id, came.evidence) == (clause().id, finding.evidence)


def test_each_gone_deviation_and_each_symptom_is_reported_apart() -> None:
    """Several stale deviations or symptoms are all listed, and a failure without a symptom lists none."""
    stale = judge(Finding(ok=True, detail="fine"), HANG, QUIET).detail
    notes = [f"; stale: the declared deviation {symptom} did not occur" for symptom in ("hang", "quiet")]
    assert stale == "fine" + "".join(notes)
    assert judge(fail("hang", "quiet")).detail == "it hung [hang, quiet]"
    assert judge(fail()).detail == "it hung"


def test_clause_that_is_not_run_is_the_one_that_waits() -> None:
    """A clause that is not run is reported under its own id, not that of its prerequisite."""
    dependent = structs.replace(clause(), needs=("handle.present",))
    judgement = fallen(dependent, dependent.needs, {})
    assert judgement
    assert judgement.id == dependent.id


def test_exit_code_is_lenient_unless_asked() -> None:
    """By default only broken releases fail."""
    assert exit_code([Verdict.DEGRADED]) == 0
    assert exit_code([Verdict.DEGRADED], stale=True, caveats=True) == 0
    assert exit_code([Verdict.COMPATIBLE], FailOn.CAVEAT) == 0


@pytest.mark.parametrize(
    "came, said",
    [
        (Result.PASS, "resumed by session id, and the model received the context"),
        (Result.FAIL, "resume.dead-handle: as seen"),
    ],
)
def test_capability_says_how_it_was_found_and_why(came: Result, said: str) -> None:
    """Resume is probed by running the command, and the profile's reason is the same detail."""
    judgement = capability([result(BREAKING, came)])
    assert judgement
    assert (judgement.probe_method, judgement.detail, profile(judgement).reason) == ("command", said, said)


def test_what_a_clause_needs_and_does_not_hold_is_found_behind_other_needs() -> None:
    """Failed prerequisites are found through others, the nearest first; met ones and those without a result are not."""
    first = result(BREAKING, Result.FAIL, "resume.accepted")
    second = structs.replace(result(BREAKING, Result.NOT_RUN, "resume.other"), needs=("resume.accepted", "resume.gone"))
    third = result(BREAKING, Result.UNSUPPORTED, "resume.third")
    asked = structs.replace(result(BREAKING, Result.NOT_RUN), needs=("resume.other", "resume.third"))
    results = {row.id: row for row in (first, second, third, asked)}
    assert [need.id for need in fallen_needs(results, asked.id)] == ["resume.third", "resume.accepted"]
    assert list(fallen_needs(results, "resume.third")) == []
