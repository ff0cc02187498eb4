import re
from inspect import getmodule, getsource
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tests.contracts.releases import RELEASES
from turngate.contract import load
from turngate.contract.clauses import CLAUSE_SETS, NEWEST_SET, Catalogue, Clause, Result, Severity
from turngate.contract.home_and_workspace import OutputSetting, Redirect
from turngate_probes.clauses import CHECKS, checks
from turngate_probes.clauses.settings import effect_of
from turngate_probes.harness.cases import FAILING
from turngate_probes.harness.output_case import ENVIRONMENT

HELP = Clause("help.surface", "It holds.", "It matters.", "Do it.", "static", Severity.DEGRADED)


HERMETIC = Clause("handle.present", "It holds.", "It matters.", "Do it.", "hermetic", Severity.BREAKING)


LIVE = Clause("live.one", "It holds.", "It matters.", "Do it.", "live", Severity.INFORMATIVE)


CATALOGUE = Catalogue({clause.id: clause for clause in (HELP, HERMETIC, LIVE)})


def test_clauses_of_some_levels_keep_their_order() -> None:
    """Clauses of several levels are listed in the catalogue's order."""
    assert CATALOGUE.at_level("live", "static") == (HELP, LIVE)
    assert CATALOGUE.at_level() == ()


# what no turngate checks any more; older reports show it, and keep their verdicts
GONE = {"server.warm-wait"}


@pytest.mark.parametrize("name", CLAUSE_SETS[:-1])
def test_earlier_sets_are_frozen(name: str) -> None:
    """A verdict names its set, so a set that releases were judged by gets no clause: a new one joins the newest."""
    recorded = (Path(__file__).parent / "clause_sets" / f"{name}.txt").read_text().splitlines()
    frozen = [line for line in recorded if line.split()[0] not in GONE]
    assert len(frozen) == len(recorded) - len(GONE)
    listed = load.catalogue().of_set(name).values()
    assert [f"{clause.id} {clause.level} {clause.severity}" for clause in listed] == frozen


def test_sets_grow() -> None:
    """Their names are in order, each contains the one before it, and an unknown newer one contains all."""
    assert list(CLAUSE_SETS) == sorted({*CLAUSE_SETS})
    sets = [load.catalogue().of_set(name).keys() for name in (*CLAUSE_SETS, "2999-01")]
    assert all(older <= newer for older, newer in pairwise(sets))
    assert load.catalogue().of_set(NEWEST_SET) == load.catalogue().of_set("2999-01") == load.catalogue()


def test_recordings_are_judged_by_the_newest_set_that_they_answer() -> None:
    """A recording from before a clause existed says nothing about it."""
    newer = Clause("live.two", "It holds.", "It matters.", "Do it.", "live", Severity.DEGRADED, since="2026-12")
    catalogue = Catalogue({**CATALOGUE, newer.id: newer})
    older = [("handle.present", Result.PASS), ("unknown.clause", Result.PASS)]
    for result in (Result.NOT_RUN, Result.UNSUPPORTED):
        assert catalogue.set_of_recordings([*older, ("live.two", result)]) == "2026-11"
    assert catalogue.set_of_recordings([*older, ("live.two", Result.FAIL)]) == "2026-12"
    assert catalogue.set_of_recordings([]) == "2026-11"


def test_a_clause_keeps_the_severity_of_each_set() -> None:
    """What weighs more since a set weighs what it did before; a recording that fails it is judged by that set."""
    graver = Clause(
        *("live.two", "It holds.", "It matters.", "Do it.", "live", Severity.BREAKING),
        severity_before={"2027-01": Severity.DEGRADED, "2026-12": Severity.INFORMATIVE},
    )
    catalogue = Catalogue({graver.id: graver})
    severities = [catalogue.of_set(name)["live.two"].severity for name in CLAUSE_SETS]
    assert severities == [Severity.INFORMATIVE, Severity.DEGRADED, Severity.BREAKING]
    assert catalogue.set_of_recordings([("live.two", Result.PASS)]) == "2026-11"
    assert catalogue.set_of_recordings([("live.two", Result.FAIL)]) == "2027-01"


BASELINES = {
    "handle.present",
    "handle.place",
    "resume.accepted",
    "resume.context-carried",
    "interactive.no-auto-flags",
}


# breaking, since the loop is the server's purpose; else a server that doesn't start would pass
SERVER = {
    "server.waits",
    "server.survives-kill",
    "server.context-carried",
    "server.final-data",
    "server.no-auto-flags",
    "server.dead-handle",
    "server.missing-handle",
    "server.engine-failure",
    "server.bad-envelope",
    "server.cancel",
    "server.one-reply",
}


# the other clauses of their level are degraded, since going back is not promised
CROSSED = {"upgrade.resume"}


# breaking, since what the user allows or declines must count
KEPT = {"sticky.permission-allowed", "sticky.settings-cannot-widen", "sticky.workspace-cannot-redirect"}


BREAKING = (
    SERVER
    | CROSSED
    | KEPT
    | {
        "version.readable",
        "handle.present",
        "handle.place",
        "stream.framing",
        "stream.line-ends",
        "stream.records-once",
        "turn.terminal-event",
        "turn.ends-once",
        "interactive.nothing-started",
        "interactive.tool-call",
        "interactive.settings-cannot-widen",
        "interactive.writes-only-artifacts",
        "workspace.cannot-redirect",
        "resume.accepted",
        "resume.same-handle",
        "resume.context-carried",
        "resume.repeated",
        "resume.after-tool-call",
        "resume.after-failure",
        "resume.after-kill",
        "session.at-once",
        "resume.later-minute",
        "resume.dead-handle",
        "resume.isolation",
        "resume.equal-replies",
        "interactive.no-auto-flags",
        "prompt.not-a-flag",
        "prompt.whole",
        "answer.whole",
        "backend.failure-told",
        "output.any-settings",
        "text.imitation",
    }
)


STICKY = {
    "sticky.one-process",
    "sticky.framing",
    "sticky.text-before-end",
    "sticky.ends-when-told",
    "sticky.context-carried",
    "sticky.permission-asked",
    "sticky.wait-timeout",
    "sticky.process-lost",
    "sticky.restart",
}


INFORMATIVE = {"stream.known-events", "network.loopback-only"}


DEGRADED = {
    "help.surface",
    "handle.shape",
    "handle.unique",
    "resume.other-cwd",
    "resume.malformed-handle",
    "auto.flags-accepted",
    "prompt.large",
    "stdin.open",
    "process.clean-exit",
    "executable.unchanged",
}


STATIC = {"version.readable", "help.surface"}


CLAUSES = tuple(load.catalogue().values())


@pytest.mark.parametrize(
    "severity, ids", [(Severity.BREAKING, BREAKING), (Severity.DEGRADED, DEGRADED), (Severity.INFORMATIVE, INFORMATIVE)]
)
def test_fixed_clauses_have_their_severity(severity: Severity, ids: set[str]) -> None:
    """Clauses that other parts rely on exist with the severity listed here."""
    assert {clause.id for clause in CLAUSES if clause.severity is severity} >= ids
    assert not {clause.id for clause in CLAUSES if clause.severity is not severity} & ids


def test_new_clauses_are_degraded_unless_listed() -> None:
    """Any other clause is degraded, so no new one becomes breaking or informative by accident."""
    assert {clause.id for clause in CLAUSES if clause.severity is not Severity.DEGRADED} == BREAKING | INFORMATIVE


def test_baselines_are_the_five() -> None:
    """Exactly these five clauses accept neither range nor deviation."""
    assert {clause.id for clause in CLAUSES if clause.baseline} == BASELINES


def test_levels_of_the_fixed_clauses() -> None:
    """A clause that other parts rely on is asked at the level that they expect."""
    assert {clause.id for clause in CLAUSES if clause.level == "static"} >= STATIC
    assert {clause.id for clause in CLAUSES if clause.level == "hermetic"} >= (
        (BREAKING | DEGRADED | INFORMATIVE) - STATIC - SERVER - CROSSED - KEPT
    )
    assert {clause.id for clause in CLAUSES if clause.level == "server"} == SERVER | KEPT | STICKY


def test_a_verdict_says_what_it_was_given_by() -> None:
    """A set of clauses stands with what of it was not asked; an earlier set has no clauses about long sessions."""
    catalogue = load.catalogue()
    assert catalogue.scope(NEWEST_SET, "hermetic") == f"clause set {NEWEST_SET}, without long"
    assert catalogue.scope(NEWEST_SET, "long") == f"clause set {NEWEST_SET}"
    assert catalogue.scope(NEWEST_SET, "server") == f"clause set {NEWEST_SET}, level server"
    assert catalogue.scope("2026-12", "hermetic") == "clause set 2026-12"


def test_clauses_say_what_and_why() -> None:
    """Each clause is one sentence, with the consequence for an orchestrator."""
    for clause in CLAUSES:
        for text in (clause.sentence, clause.why):
            assert re.fullmatch(r"[A-Z][^\n]+\.", text), clause.id
        assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", clause.id)


def test_clauses_need_what_stands_before_them() -> None:
    """A clause needs only clauses before it in the catalogue, so there are no cycles."""
    before = set[str]()
    for clause in CLAUSES:
        assert set(clause.needs) <= before, clause.id
        assert clause.id not in before
        before.add(clause.id)


def test_clauses_have_a_check() -> None:
    """Each clause of a probe has a check function."""
    for clause in load.catalogue().at_level("static", "hermetic"):
        assert CHECKS[clause.id].run.__doc__, clause.id


# the words for what a contract says of its own entries
KINDS = {word for entry in (Redirect, OutputSetting) for word in get_args(get_type_hints(entry)["kind"])}
BY_CONTRACT = {*KINDS, ENVIRONMENT, *map(effect_of, ("tool_call", "command_call", ""))}
SYMPTOMS = {clause.id: {*clause.symptoms} for clause in CLAUSES if clause.symptoms}


def test_declared_symptoms_are_those_that_checks_report() -> None:
    """A deviation names a symptom that the clause's check can report; else it would never apply."""
    for engine, clause, symptom in sorted({(c.engine, d.clause, d.symptom) for c in RELEASES for d in c.deviations}):
        assert symptom in SYMPTOMS[clause], engine
        source = getsource(getmodule(CHECKS[clause].run) or pytest.fail("no module")) + getsource(checks)
        if symptom in BY_CONTRACT:
            continue
        assert f'"{symptom}"' in source or f'"{symptom.rpartition("-")[0]}-{{' in source, (engine, clause)


def test_known_symptoms_are_all_there_are() -> None:
    """The symptoms in the catalogue are exactly those in the source of the checks."""
    sources = {getsource(getmodule(check.run) or pytest.fail("no module")) for check in CHECKS.values()}
    sources.add(getsource(checks))
    listed = set.union(*SYMPTOMS.values()) - SYMPTOMS["backend.failure-told"] - BY_CONTRACT
    assert set.union(*map(_named, sources)) == listed
    kinds = {case.removeprefix("backend-") for case in FAILING}
    assert SYMPTOMS["backend.failure-told"] == {
        f"{how}-{kind}" for how in ("hang", "success", "exit-0") for kind in kinds
    }


def _named(source: str) -> set[str]:
    spelled = re.findall(r"symptom=(.+)\)$", source, re.MULTILINE)
    return {word for text in spelled for word in re.findall(r'"([a-z0-9-]+)"', text)}
