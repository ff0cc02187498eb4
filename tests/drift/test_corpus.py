"""The corpus as a whole, and that no clause fails without a drift."""

import re
from itertools import product

import pytest

from tests.drift import transform, wrapper
from tests.drift.drifts import Drift, corpus
from tests.drift.judging import LEVELS, failures, judge
from tests.drift.staged import play, without_waiting
from turngate.contract import load
from turngate.contract.clauses import NEWEST_SET

CORPUS = corpus()
UNSEEN = (
    "acts-unasked",
    "changes-session",
    "dies-after-turn",
    "forgets",
    "ignores-termination",
    "prints-noise",
)
LATE = ("late-text", "acp")  # in the other protocols, the end of a turn is the last message of the turn


def test_the_corpus_is_large() -> None:
    """There are at least sixty drifts, and no two make the same change."""
    assert len(CORPUS) >= 60
    ways = {(str(drift.changes), drift.recordings, drift.simulated, drift.fault, drift.cases) for drift in CORPUS}
    assert len(ways) == len(CORPUS)


def test_every_clause_catches_a_drift() -> None:
    """Every clause catches at least one drift."""
    hermetic = {drift.caught_by for drift in CORPUS if not drift.sticky}
    assert {clause.id for clause in load.catalogue().at_level(*LEVELS)} == hermetic


def test_each_clause_of_the_newest_set_catches_what_no_other_does() -> None:
    """Each clause of the newest set has a drift that fails no other clause."""
    newest = {clause.id for clause in load.catalogue().at_level(*LEVELS) if clause.since == NEWEST_SET}
    assert newest - {drift.caught_by for drift in CORPUS if drift.alone} == set()


def test_each_fault_is_caught_on_every_protocol() -> None:
    """Every fault that the server can neither correct nor report by itself has a drift for each protocol."""
    protocols = {load.contract(engine).at().sticky.transport for engine in load.engine_names()} - {"none"}
    covered = {
        (drift.fault, load.contract(engine).at(version).sticky.transport)
        for drift in CORPUS
        if drift.sticky
        for engine, _, version in [str(drift.simulated).partition("@")]
    }
    assert covered == {*product(UNSEEN, protocols), LATE}


def test_every_word_is_used() -> None:
    """The corpus uses every word of the vocabulary."""
    for words, drifts in (
        (transform.WORDS, [drift for drift in CORPUS if drift.recordings]),
        (
            wrapper.BEFORE | wrapper.INSTEAD | wrapper.AFTER,
            [drift for drift in CORPUS if drift.changes and not drift.recordings],
        ),
    ):
        assert {change["do"] for drift in drifts for change in drift.changes} == set(words)


def test_drifts_tell_themselves_in_sentences() -> None:
    """Each drift says in sentences what changes and why, and names its issue or commit in a standard form."""
    for drift in CORPUS:
        assert drift.what.endswith("."), drift.name
        assert drift.why.endswith("."), drift.name
        seen_in = drift.seen_in or "repository#1"
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?(#\d+| [0-9a-f]{7,40})", seen_in), drift.name


@pytest.mark.long
@pytest.mark.nightly
def test_no_clause_fails_on_an_executable_that_does_not_drift() -> None:
    """No clause fails on the wrapper without a change."""
    cases = ("static", "main", "bad-handles", "auto", "flag-prompts", "stdin-open")
    still = Drift(name="none", what="", why="", changes=(), caught_by="", executable="codex@0.169.0", cases=cases)
    with without_waiting():
        results = judge(play(still))
    assert [f"{failure.id}: {failure.detail}" for failure in failures(results)] == []
    assert len(results) == len(load.catalogue().at_level(*LEVELS))
