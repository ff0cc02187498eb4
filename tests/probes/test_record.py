"""The shipped recordings are clean, small, complete, and judged as their contracts say."""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest

from tests.longer import only_quick
from tests.tables import each
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import redact
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES, RECORDED
from turngate_probes.harness.driver import Ask, EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Observations
from turngate_probes.record import replay
from turngate_probes.record.recorder import Replacer, fixed_ids
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.recorded_releases import BROKEN

FIXTURES = Path(__file__).parents[2] / "fixtures"
RELEASES = sorted(f"{path.parent.name}@{path.name}" for path in FIXTURES.glob("*/*") if any(path.iterdir()))
NEWEST = [f"{engine}@{recorded_releases.newest(engine)}" for engine in load.engine_names()]
LATER_STEPS = {"main/same", "main/same-again"}
LATER_CASES = {"sandbox"}  # which no recording has yet
MACHINE = re.compile(r"(?<![\w>.-])/(?:root|work|Users|home/(?!runner)|tmp|var/tmp|mnt)/")
# releases that are broken or degraded, with every clause that fails
NO_ID = {"handle.present"}
FAILING: dict[str, set[str]] = {
    "codex@0.42.0": NO_ID | {"turn.terminal-event", "interactive.no-auto-flags", "stream.known-events"},
    "copilot@1.0.81": {"stream.known-events"},
    "gemini@0.20.2": NO_ID,
    "opencode@1.15.13": {"turn.terminal-event"},
}


@pytest.fixture(autouse=True)
def _shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the recordings of this checkout, whatever the environment sets."""
    monkeypatch.setenv("TURNGATE_FIXTURES", str(FIXTURES))


class FixtureScript:
    """Replaces a driver: each turn returns the recorded session, and every step is noted."""

    def __init__(self, recorded: Observations) -> None:
        self.contract, self.sandbox = recorded.contract, MagicMock(fill=str)
        self._recorded, self._case, self._steps = recorded.turns, "", list[str]()

    def steps(self) -> list[str]:
        """Run every recorded case and return its steps as `case/step`."""
        for case in (case for case in RECORDED if case.name not in LATER_CASES):
            self._case = case.name
            with suppress(CaseStoppedError):
                case.play(cast("EngineDriver", self))
        return self._steps

    def start(self, step: str, _: Ask) -> SimpleNamespace:
        """Note a first turn."""
        self._steps.append(f"{self._case}/{step}")
        turn = self._recorded.get(self._steps[-1])
        return SimpleNamespace(session=turn and turn.session, finished_at=0.0, stdout=b"", stderr=b"")

    def resume(self, step: str, session: str | None, ask: Ask) -> SimpleNamespace:
        """Note a resumed turn; without a session, stop as a real driver does."""
        if session is None:
            raise CaseStoppedError("the previous turn reported no session id")
        return self.start(step, ask)

    def stored(self, session: str | None) -> None:
        """Do nothing, since no recording has the file of its session."""

    def page(self, step: str, arguments: Sequence[str]) -> None:
        """Do nothing, since few releases have recorded pages."""

    def until_later_minute(self, since: float) -> None:
        """Don't wait."""


@cache
def observed(release: str) -> Observations:
    """Replay all recordings of a release."""
    engine, _, version = release.partition("@")
    return replay.replay(load.contract(engine).at(version))


def judged(release: str) -> dict[str, ClauseResult]:
    """Judge all clauses by the recordings of a release."""
    results: dict[str, ClauseResult] = {}
    judge_all(observed(release), results, ("static", "hermetic"), {case.name for case in CASES} | {EVERYTHING})
    return results


@pytest.mark.parametrize("release", only_quick(RELEASES, *NEWEST))
def test_clauses_fail_only_where_the_release_is_known_to_be_broken(release: str) -> None:
    """No clause fails for a release that the contract calls sound, and no deviation is stale."""
    results = judged(release)
    failing = {name for name, result in results.items() if result.result is Result.FAIL}
    assert failing == FAILING.get(release, set()), {name: results[name].detail for name in failing}
    assert release in FAILING or [name for name, result in results.items() if result.stale] == []


def test_what_is_listed_as_broken_is_what_misses_a_baseline() -> None:
    """The lint's list of broken releases names exactly those that fail a baseline."""
    assert set(load.parse((FIXTURES / BROKEN).read_text("utf-8"), BROKEN).data) == set(FAILING)


@pytest.mark.parametrize("release", only_quick(RELEASES, *NEWEST))
def test_every_step_was_recorded(release: str) -> None:
    """Each step of each case has a recorded turn with its requests, as far as the release has sessions to resume.

    Two equal replies are in recordings of the newest releases, and in those that were made since.
    """
    turns = observed(release).turns.values()
    recorded, steps = {turn.name for turn in turns}, {*FixtureScript(observed(release)).steps()}
    assert recorded == (steps if release in NEWEST or recorded & LATER_STEPS else steps - LATER_STEPS)
    assert all(turn.requests is not None for turn in turns)


@pytest.mark.parametrize("release", only_quick(RELEASES, *NEWEST))
def test_nothing_volatile_is_left(release: str) -> None:
    """Replacing volatile text in a recording again changes nothing."""
    contract = observed(release).contract
    turns = list(observed(release).turns.values())
    for case, of_case in groupby(turns, key=lambda turn: turn.name.partition("/")[0]):
        for turn in of_case:
            replacer = Replacer(contract, case, {}, fixed_ids(turn.scripted))
            for stream in (turn.stdout, turn.stderr):
                assert _without_numbers(replacer.bytes(stream)) == _without_numbers(stream), turn.name


def test_a_release_without_an_executable_has_its_pages_recorded() -> None:
    """A release without an executable has recorded version and help output, so that these are judged too."""
    results = judged("iflow@0.5.19")
    assert {name: results[name].result for name in ("version.readable", "help.surface")} == {
        "version.readable": Result.PASS,
        "help.surface": Result.PASS,
    }


def test_iflow_is_judged_on_every_clause_that_recordings_can_answer() -> None:
    """Recordings answer every clause except those about network, executable, exit and what was started or written.

    The clauses of sets that are newer than the recordings are left out.
    """
    results, earlier = judged("iflow@0.5.19"), load.catalogue().of_set("2026-12")
    unanswered = {name for name, result in results.items() if result.result is Result.NOT_RUN}
    assert unanswered & earlier.keys() == {
        "network.loopback-only",
        "executable.unchanged",
        "process.clean-exit",
        "interactive.nothing-started",
        "interactive.tool-call",
        "prompt.reads-no-file",
        "interactive.settings-cannot-widen",
        "workspace.cannot-redirect",
    }


def _without_numbers(stream: bytes) -> bytes:
    # the number of a placeholder depends on earlier turns
    return re.sub(rb"\d{6,}", b"", stream)


@pytest.mark.long
@pytest.mark.nightly
def test_there_is_no_secret_and_no_place_of_a_machine() -> None:
    """No file contains a key, the address of a registry, or a path of the recording machine."""
    for path in FIXTURES.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            assert redact(text) == text, path
            assert not MACHINE.search(text), (path, MACHINE.search(text))


def test_they_are_small() -> None:
    """All recordings together take less than 10 MB, and no single file is too long to review."""
    sizes = {path: path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 10 * 2**20
    assert max(sizes.values()) < 200 * 2**10, max(sizes, key=lambda path: sizes[path])


@each("engine", load.engine_names())
def test_recordings_named_as_evidence_exist(engine: str) -> None:
    """Every recording that a contract names as evidence exists."""
    text = load.contract(engine).document
    named = set(re.findall(r"'recording': '([\w./-]+)'", str(text.data)))
    assert [name for name in named if not (FIXTURES / name / "recording.yaml").is_file()] == []
