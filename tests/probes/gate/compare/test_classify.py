"""Classifying differences: only what the contract uses can be breaking."""

import itertools

from tests.tables import each
from turngate.contract.clauses import Result, Severity
from turngate_probes.gate.compare import Use, of_call, of_clause, of_surface
from turngate_probes.report.reports import Impact

B, D, A, N = Impact.BREAKING, Impact.DEGRADED, Impact.ADDITIVE, Impact.NONE


@each(
    "before, after, breaking, degraded",
    [
        (Result.PASS, Result.FAIL, B, D),
        (Result.DEVIATES, Result.FAIL, B, D),
        (Result.PASS, Result.DEVIATES, D, D),
        (Result.PASS, Result.UNSUPPORTED, D, D),
        (Result.FAIL, Result.PASS, A, A),
        (Result.FAIL, Result.DEVIATES, A, A),
        (Result.DEVIATES, Result.PASS, A, A),
        (Result.FAIL, Result.FAIL, N, N),
        (Result.PASS, Result.NOT_RUN, N, N),
    ],
)
def test_a_clause_costs_what_its_severity_says(
    before: Result, after: Result, breaking: Impact, degraded: Impact
) -> None:
    """A new failure has the impact of its clause's severity; a deviation weighs less, an informative clause nothing."""
    weigh = [of_clause(severity, before, after, fallen=False) for severity in Severity]
    assert weigh == [breaking, degraded, N]


def test_a_clause_that_fell_with_what_it_needs_is_lost() -> None:
    """A clause that a failing prerequisite blocks counts as failed, unless it was blocked before too."""
    assert of_clause(Severity.BREAKING, Result.PASS, Result.NOT_RUN, fallen=True) is B
    assert of_clause(Severity.BREAKING, Result.NOT_RUN, Result.NOT_RUN, fallen=True) is N


@each("before, after", list(itertools.product(Result, Result)))
def test_every_pair_of_results_is_weighed(before: Result, after: Result) -> None:
    """Every pair of results has an impact, and an improvement never counts against the release."""
    for severity in Severity:
        impact = of_clause(severity, before, after, fallen=False)
        assert impact in (A, N) or after is not Result.PASS
        assert impact is N or before is not after


def test_only_what_the_contract_uses_can_be_breaking() -> None:
    """Losing an offered option is breaking; losing what turns rely on is breaking unless they still work."""
    for holds in (True, False):
        assert of_surface(Use.NONE, holds=holds) is N
        assert of_surface(Use.OFFERS, holds=holds) is B
    assert of_surface(Use.RELIES, holds=False) is B
    assert of_surface(Use.RELIES, holds=True) is D


def test_a_tool_that_runs_unasked_breaks_and_one_that_is_denied_in_mode_auto_does_not() -> None:
    """A tool that runs unasked in interactive mode is breaking; a tool denied in auto mode is not."""
    assert of_call("interactive", "executed") is B
    assert of_call("interactive", "hangs") is D
    assert of_call("interactive", "denied") is N
    assert of_call("auto", "denied") is D
    assert of_call("auto", "executed") is N
