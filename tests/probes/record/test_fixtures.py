"""The recordings of real releases: clean, small, complete, and judged as their contracts say."""

import re
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from turngate import load
from turngate.clauses import Result
from turngate.redact import redact
from turngate.verdict import ClauseResult
from turngate_probes import recordings
from turngate_probes.cases import CASES, RECORDED
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.observe import Seen
from turngate_probes.record.replace import Replacer, fixed_ids

FIXTURES = Path(__file__).parents[3] / "fixtures"
RELEASES = sorted(f"{path.parent.name}@{path.name}" for path in FIXTURES.glob("*/*") if any(path.iterdir()))
CONVERTED = ("iflow",)  # recorded by others, and not by these cases
MACHINE = re.compile(r"(?<![\w>.-])/(?:root|work|Users|home/(?!runner)|tmp|var/tmp|mnt)/")
# releases that miss a baseline, and all that fails because of it
NO_ID = {"handle.present"}
FAILING: dict[str, set[str]] = {
    "codex@0.42.0": NO_ID
    | {"turn.terminal-event", "interactive.no-auto-flags", "backend.failure-told", "stream.known-events"},
    "gemini@0.20.2": NO_ID,
    "opencode@1.15.13": NO_ID | {"turn.terminal-event", "interactive.no-auto-flags", "backend.failure-told"},
}


@pytest.fixture(autouse=True)
def _shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the recordings of this checkout, whatever the user's environment says."""
    monkeypatch.setenv("TURNGATE_FIXTURES", str(FIXTURES))


@cache
def seen(release: str) -> Seen:
    """Replay all recordings of a release."""
    engine, _, version = release.partition("@")
    return recordings.replay(load.contract(engine).at(version))


def judged(release: str) -> dict[str, ClauseResult]:
    """Judge all clauses by the recordings of a release."""
    results: dict[str, ClauseResult] = {}
    judge_all(seen(release), results, ("static", "hermetic"), {case.name for case in CASES} | {EVERYTHING})
    return results


@pytest.mark.parametrize("release", RELEASES)
def test_clauses_fail_only_where_the_release_is_known_to_be_broken(release: str) -> None:
    """No clause fails on a recording of a release that the contract takes for sound, and no deviation is stale."""
    results = judged(release)
    failing = {name for name, found in results.items() if found.result is Result.FAIL}
    assert failing == FAILING.get(release, set()), {name: results[name].detail for name in failing}
    assert release in FAILING or [name for name, found in results.items() if found.stale] == []


@pytest.mark.parametrize("release", [each for each in RELEASES if not each.startswith(CONVERTED)])
def test_every_case_was_recorded(release: str) -> None:
    """Each case left a turn, each turn its requests, and none of them was cut off by us but those that hang."""
    turns = seen(release).turns.values()
    assert {turn.name.partition("/")[0] for turn in turns} == {case.name for case in RECORDED}
    assert all(turn.requests is not None for turn in turns)


@pytest.mark.parametrize("release", [each for each in RELEASES if not each.startswith(CONVERTED)])
def test_nothing_volatile_is_left(release: str) -> None:
    """Replacing what is volatile in a recording once more changes nothing."""
    contract = seen(release).contract
    turns = list(seen(release).turns.values())
    for case, of_case in groupby(turns, key=lambda turn: turn.name.partition("/")[0]):
        for turn in of_case:
            replacer = Replacer(contract, case, {}, fixed_ids(turn.scripted))
            for stream in (turn.stdout, turn.stderr):
                assert _without_numbers(replacer.bytes(stream)) == _without_numbers(stream), turn.name


def _without_numbers(stream: bytes) -> bytes:
    # which number a placeholder has depends on the turns before
    return re.sub(rb"\d{6,}", b"", stream)


def test_there_is_no_secret_and_no_place_of_a_machine() -> None:
    """No file holds a key, the address of a registry, or a path of the machine that recorded it."""
    for path in FIXTURES.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("utf-8", "replace")
            assert redact(text) == text, path
            assert not MACHINE.search(text), (path, MACHINE.search(text))


def test_they_are_small() -> None:
    """All together stay below 10 MB, and no single file is a burden to a reviewer."""
    sizes = {path: path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 10 * 2**20
    assert max(sizes.values()) < 200 * 2**10, max(sizes, key=lambda path: sizes[path])


@pytest.mark.parametrize("engine", load.engines())
def test_recordings_named_as_evidence_exist(engine: str) -> None:
    """What a contract points at is there."""
    text = load.contract(engine).document
    named = set(re.findall(r"recording: ([\w./-]+)", str(text.data)))
    assert [each for each in named if not (FIXTURES / each / "recording.yaml").is_file()] == []
