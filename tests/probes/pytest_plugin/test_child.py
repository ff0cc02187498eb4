"""The program that probes for pytest."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.probes import engines
from turngate.contract.verdict import FailOn
from turngate_probes.journal.journal import read
from turngate_probes.pytest_plugin import child
from turngate_probes.pytest_plugin.child import Request
from turngate_probes.report.build import build

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))


def started(targets: dict[str, str], *clauses: str) -> subprocess.Popen[bytes]:
    """Start the program for these targets and journals."""
    request = msgspec.json.encode(Request(targets, "static", FailOn.BROKEN, clauses, None)).decode()
    return subprocess.Popen((sys.executable, "-m", child.__name__, request), stdin=subprocess.PIPE)


def test_each_target_has_a_journal(tmp_path: Path) -> None:
    """Two executables of one version have their own journals, with the selected clause."""
    targets = {f"codex={engines.install(tmp_path / name)}": str(tmp_path / f"{name}.ndjson") for name in ("one", "two")}
    with started(targets, "version.readable") as process:
        assert process.wait() == 0
    reports = [build(read(Path(path))).releases for path in targets.values()]
    assert [f"codex={release.executable}" for (release,) in reports] == [*targets]
    assert {clause.id for (release,) in reports for clause in release.clauses} == {"version.readable"}


@pytest.mark.parametrize("how", ["signal", "eof"])
def test_it_ends_with_pytest(tmp_path: Path, how: str) -> None:
    """A signal, or the end of its standard input, ends it and the engine."""
    executable = engines.install(tmp_path / "bin", "hangs-at-version")
    os.mkfifo(tmp_path / "bin" / "meeting")
    with started({f"codex={executable}": str(tmp_path / "journal")}) as process:
        pid = int((tmp_path / "bin" / "meeting").read_text())
        if how == "signal":
            process.send_signal(signal.SIGTERM)
            process.wait()
        else:
            process.communicate()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
