"""Peak resource usage, and limits on parallel work."""

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from turngate_probes.harness.resource_usage import (
    ENGINE_MEMORY,
    LEAST_MEMORY,
    WAITING_MEMORY,
    ResourceUsage,
    enough_memory,
    jobs_for,
    machine,
    resident_set_bytes,
    waiting_for,
)


def test_the_most_of_all_samples_is_kept() -> None:
    """The peak of all samples is kept."""
    sizes = [5, 9, 1]
    with ResourceUsage(lambda: sizes.pop(0) if sizes else 0) as usage:
        usage.look()
        usage.look()
    assert usage.cache_bytes == 9
    assert usage.memory_bytes >= psutil.Process(os.getpid()).memory_info().rss / 2


def test_processes_below_count() -> None:
    """The memory of child processes is included; vanished processes are ignored."""
    alone = resident_set_bytes()
    with psutil.Popen(("cat",), stdin=-1) as child:
        assert resident_set_bytes() >= alone
        assert child.stdin
        child.stdin.close()


def test_memory_bounds_how_much_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Low memory allows one engine at a time, otherwise one per core plus one."""
    for available, enough, jobs in ((0, False, 1), (LEAST_MEMORY, True, 2), (100 * ENGINE_MEMORY, True, 5)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda available=available: SimpleNamespace(available=available))
        assert enough_memory() is enough
        assert jobs_for(4) == jobs
        assert waiting_for(1) == min(40, max(1, available // WAITING_MEMORY))


def with_node(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called node on an otherwise minimal PATH."""
    node = folder / "node"
    node.write_text(script)
    node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_it_says_what_reports_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's description has the Node version, the cores and the memory."""
    with_node(tmp_path, monkeypatch, "#!/bin/sh\necho v20.1.0\n".replace("\\\n", "\n"))
    this_machine = machine()
    assert this_machine.node == "v20.1.0"
    assert (this_machine.cores or 0) >= 1
    assert (this_machine.memory_gb or 0) > 0


def test_without_node_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Node version is None if node is missing or can't be started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine().node is None
    with_node(tmp_path, monkeypatch, "#!/nonexistent\n")
    assert machine().node is None
