"""The corpus as a whole, and what it is held against: nothing fails where nothing drifts."""

import re
from itertools import product

import pytest

from tests.drift import transform, wrapper
from tests.drift.drifts import Drift, corpus
from tests.drift.judging import LEVELS, failures, judge
from tests.drift.staged import play, without_waiting
from turngate.contract import load
from turngate_probes.simulate.sticky.faults import FAULTS

CORPUS = corpus()


def test_the_corpus_is_large() -> None:
    """There are at least sixty drifts, each of which changes something in its own way."""
    assert len(CORPUS) >= 60
    ways = {(str(drift.changes), drift.recordings, drift.simulated, drift.fault, drift.cases) for drift in CORPUS}
    assert len(ways) == len(CORPUS)


def test_every_clause_catches_a_drift() -> None:
    """No clause is there for nothing."""
    hermetic = {drift.caught_by for drift in CORPUS if not drift.fault}
    assert {clause.id for clause in load.catalogue().at_level(*LEVELS)} == hermetic


def test_each_fault_is_caught_on_every_protocol() -> None:
    """What a simulated process does wrong, and the server can't make good, is in the corpus for each protocol."""
    protocols = {load.contract(engine).at().sticky.transport for engine in load.engine_names()} - {"none"}
    # an action that is asked for twice is answered twice, and a process that dies in a turn is lost as well
    faults = set(FAULTS) - {"asks-twice", "dies-in-turn"}
    covered = {
        (drift.fault, load.contract(engine).at(version).sticky.transport)
        for drift in CORPUS
        if drift.fault
        for engine, _, version in [str(drift.simulated).partition("@")]
    }
    assert covered == set(product(faults, protocols))


def test_every_word_is_used() -> None:
    """The vocabulary holds no more than the corpus needs."""
    for words, drifts in (
        (transform.WORDS, [drift for drift in CORPUS if drift.recordings]),
        (wrapper.BEFORE | wrapper.INSTEAD | wrapper.AFTER, [drift for drift in CORPUS if not drift.recordings]),
    ):
        assert {change["do"] for drift in drifts for change in drift.changes} == set(words)


def test_drifts_tell_themselves_in_sentences() -> None:
    """A drift says what changes and why it may, and names its issue so that it can be found."""
    for drift in CORPUS:
        assert drift.what.endswith("."), drift.name
        assert drift.why.endswith("."), drift.name
        seen_in = drift.seen_in or "repository#1"
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)?(#\d+| [0-9a-f]{7,40})", seen_in), drift.name


@pytest.mark.long
def test_no_clause_fails_on_an_executable_that_does_not_drift() -> None:
    """The wrapper without a change is as good as the engine in it."""
    cases = ("static", "main", "bad-handles", "auto", "flag-prompts", "stdin-open")
    still = Drift(name="none", what="", why="", changes=(), caught_by="", executable="codex@0.169.0", cases=cases)
    with without_waiting():
        results = judge(play(still))
    assert [f"{failure.id}: {failure.detail}" for failure in failures(results)] == []
    assert len(results) == len(load.catalogue().at_level(*LEVELS))
