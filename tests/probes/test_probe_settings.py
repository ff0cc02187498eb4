"""The settings of a probe: which cases it plays, and where files go."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate.contract.load import catalogue
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.harness.cases import CASES, FIRST_TURN
from turngate_probes.probe_settings import KEPT_JOURNALS, ProbeSettings, default_jobs, journal_path, sandboxes_path
from turngate_probes.server_level.cases import RESUMED_CASES


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_places_follow_the_cache_or_what_is_kept(folder: Path) -> None:
    """Sandboxes and journal are in the cache, or both in the folder of `--keep`."""
    assert sandboxes_path(None) == folder / "cache/sandboxes"
    first = journal_path(None)
    assert first.parent == folder / "cache/probes"
    assert first != journal_path(None), "two probes that start in the same second each have a journal"
    assert sandboxes_path(folder / "kept") == folder / "kept"
    assert journal_path(folder / "kept") == folder / "kept/probe.ndjson"


def test_only_the_newest_journals_stay(folder: Path) -> None:
    """Only the newest journals stay in the cache, ordered by name, and one to which its probe still writes."""
    probes = folder / "cache/probes"
    probes.mkdir(parents=True)
    names = [f"20260101T0000{i:02}Z-1.ndjson" for i in range(KEPT_JOURNALS + 5)]
    for name in names:
        (probes / name).touch()
        os.utime(probes / name, (0, 0))
    os.utime(probes / names[1])
    journal_path(None)
    assert sorted(path.name for path in probes.iterdir()) == [names[1], *names[5:]]


def test_one_more_engine_runs_than_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the number of cores is unknown, it counts as one."""
    for cores, jobs in ((8, 9), (1, 2), (None, 2)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert default_jobs() == jobs


def test_another_server_is_asked_only_for_resumed_turns(tmp_path: Path) -> None:
    """It is judged by the clauses that need no more than the routes for runs, and no case of a sticky process runs."""
    settings = ProbeSettings("server", 1, tmp_path, server=("serve",))
    clauses = {clause.id for clause in catalogue().at_level("server") if clause.id.startswith("server.")}
    assert {*(settings.asked() or ())} == clauses
    assert {case.name for case in settings.cases()} == {FIRST_TURN.name, *(case.name for case in RESUMED_CASES)}


def test_every_level_is_one_of_the_catalogue() -> None:
    """A higher level includes all clauses of lower ones."""
    assert set(LEVELS["static"]) < set(LEVELS["hermetic"]) < set(LEVELS["long"])
    assert {level for levels in LEVELS.values() for level in levels} == {
        clause.level for clause in catalogue().values()
    }


def test_a_clause_about_everything_plays_all_cases(folder: Path) -> None:
    """A clause about all turns runs all cases, as does a probe without selected clauses."""
    for clauses in (("process.clean-exit",), ()):
        settings = ProbeSettings("hermetic", 2, folder, clauses=clauses)
        assert settings.cases() == [case for case in CASES if case.level != "long"]
        assert replace(settings, level="long").cases() == list(CASES)
