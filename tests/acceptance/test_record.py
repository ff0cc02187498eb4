"""Recording a real engine twice gives the same files."""

from pathlib import Path

import pytest

from turngate.model import Ended
from turngate_probes.harness.cases import RECORDED
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.probe_settings import default_jobs, sandboxes_path
from turngate_probes.record import replay
from turngate_probes.record.recorder import record
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.source import ReleaseSource
from turngate_probes.releases.target import Target

# turngate ends these, at a different time in each run
ENDLESS = {"backend-500", "backend-away", "backend-hang", "interrupted", "killed", "stdin-open"}
# Codex sometimes prints no record of a command that fails at once, although it tells the model
VARYING = {"sandbox"}


def files(folder: Path) -> dict[str, bytes]:
    """Read all files but the provenance."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "provenance.yaml")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.engines
def test_recording_codex_again_changes_nothing_but_the_provenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two recordings of the pinned release are byte-identical in the cases that end by themselves, but `VARYING`."""
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda *_: None)
    with ReleaseSource().held(Target("codex", pinned_version("codex")), print) as release:
        pass  # no other process uses the cache meanwhile
    cases = [case for case in RECORDED if case.name not in ENDLESS | VARYING]
    recordings = []
    for name in ("one", "two"):
        interrupt = Interrupt()
        stage = CaseRunner.of(sandboxes_path(None), default_jobs(), interrupt)
        done = record(release, cases, stage, tmp_path / name, interrupt)
        assert done.early == {}
        recordings.append(files(done.folder))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "two"))
    assert {turn.ended for turn in replay.replay(release.contract).turns.values()} == {Ended.EXIT}
    first, second = recordings
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == set()
