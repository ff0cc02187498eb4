"""The description of the machine."""

from pathlib import Path

import pytest

from turngate_probes.harness.resource_usage import machine


def with_node(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called node, and little else, on PATH."""
    node = folder / "node"
    node.write_text(script)
    node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_it_says_what_reports_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sensible values."""
    with_node(tmp_path, monkeypatch, "#!/bin/sh\necho v20.1.0\n".replace("\\\n", "\n"))
    found = machine()
    assert found.node == "v20.1.0"
    assert (found.cores or 0) >= 1
    assert (found.memory_gb or 0) > 0


def test_without_node_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Node is None, and so is one that can't be started."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine().node is None
    with_node(tmp_path, monkeypatch, "#!/nonexistent\n")
    assert machine().node is None
