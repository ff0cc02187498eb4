"""A matrix that is killed in the middle, as a process of its own, goes on where it was."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.probes.matrix.conftest import Shop, verdicts

pytestmark = pytest.mark.long

VERSIONS = "0.160.0,0.161.0,0.162.0"


def meeting_in(shop: Shop) -> Path:
    """Have the engine meet the tester in one place, whichever release it plays; gives the fifo."""
    meeting = shop.folder / "meeting"
    os.mkfifo(meeting)
    engine = shop.folder / "engine"
    engine.write_text(engine.read_text().replace('"meeting"', repr(str(meeting))))
    return meeting


def test_a_matrix_that_is_killed_goes_on_where_it_was(shop: Shop) -> None:
    """What it had answered is kept, what it was asking is asked again, and nothing of it stays behind."""
    shop.matrix("0.160.0")
    results, sandboxes = shop.folder / "results", shop.folder / "cache/sandboxes"
    shop.lies("0.161.0", "hangs-at-version")
    meeting = meeting_in(shop)
    code = "from turngate.cli import main; main()"
    argv = (sys.executable, "-c", code, "matrix", "codex", "--versions", VERSIONS, "--level", "static")
    quiet = subprocess.DEVNULL
    with subprocess.Popen((*argv, "--results", str(results)), stdout=quiet, stderr=quiet) as running:
        engine = int(meeting.read_text())
        running.kill()
        assert running.wait(30) == -signal.SIGKILL
    with suppress(ProcessLookupError):
        os.kill(engine, signal.SIGKILL)
    assert [part for part in results.glob("*.part") if part.name.startswith("codex@0.161.0-")] != []
    assert list(sandboxes.iterdir()) != []

    shutil.rmtree(shop.root("0.161.0"))
    shop.lies("0.161.0")
    ended, report = shop.matrix(VERSIONS)
    assert (ended, set(verdicts(report).values())) == (0, {"compatible"})
    assert list(verdicts(report)) == VERSIONS.split(",")
    assert "of them earlier" in shop.err
    assert not list(results.glob("*.part"))
    assert list(sandboxes.iterdir()) == []
