import os
import subprocess
import sys
from typing import Any

import psutil
import pytest

from turngate_reference.server.orchestrator.process_memory import resident_memory


def test_memory_counts_the_whole_tree() -> None:
    """A child's memory counts; a process that is gone uses none."""
    code = "import subprocess, sys; subprocess.Popen(['cat']); print(flush=True); sys.stdin.read()"
    pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipe) as parent:
        assert parent.stdout
        parent.stdout.readline()
        whole = resident_memory(parent.pid)
        assert whole > psutil.Process(parent.pid).memory_info().rss
        parent.communicate(b"")
    assert resident_memory(parent.pid) == 0


def test_what_ends_while_it_is_measured_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that has ended since it was listed uses none, and the others still count."""
    own = resident_memory(os.getpid())
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    ended = psutil.Process()
    monkeypatch.setattr(ended, "memory_info", lambda: (_ for _ in ()).throw(psutil.NoSuchProcess(gone.pid)))
    monkeypatch.setattr(psutil.Process, "children", lambda _self, **_: [ended])
    assert 0 < resident_memory(os.getpid()) <= 2 * own
