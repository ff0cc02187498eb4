"""Any command, with the recording executables in place."""

import sys
from pathlib import Path

import pytest

from turngate import load_contract
from turngate_probes.conform.conform_report import Conformance, ScenarioResult
from turngate_probes.conform.conform_view import view
from turngate_probes.conform.observe import observed
from turngate_probes.harness.interrupt import Interrupt

CONTRACTS = (load_contract("codex", "0.169.0"), load_contract("gemini", "0.61.0"))
LEAVES = """
import os, subprocess
reading, writing = os.pipe()
# it holds the other end itself, so that its input never ends
subprocess.Popen(["codex", "exec", "--json", "--skip-git-repo-check", "-"], stdin=reading, pass_fds=[writing])
folder = os.path.join(os.path.dirname(os.path.dirname(os.environ["TURNGATE_ENGINE_CODEX"])), "calls")
while not os.path.exists(os.path.join(folder, "0001", "call.json")):
    pass
os._exit(0)
"""
CALLS = "codex exec --json --skip-git-repo-check --yolo - <<< hello && exit 7"


@pytest.mark.parametrize("interactive", [True, False])
def test_every_call_is_judged(*, interactive: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With a user in the loop, approval counts; an engine that was not called has no answer."""
    report = observed(("bash", "-c", CALLS), CONTRACTS, tmp_path, Interrupt(), interactive=interactive, strict=False)
    codex, gemini = report.results
    assert [breach.rule for breach in codex.breaches] == ["orchestrator.no-auto-approval"] * interactive
    assert (codex.exit_codes, len(codex.calls), gemini.result) == ((7,), 1, ScenarioResult.UNANSWERED)
    assert "TURNGATE_ENGINE_GEMINI" in gemini.detail
    assert report.verdict is (Conformance.BROKEN if interactive else Conformance.UNANSWERED)
    assert (report.exit_code, view(report).meaning) == (7, "the exit code of the command")
    assert "thread.started" in capfd.readouterr().out


def test_what_is_left_running_counts(tmp_path: Path) -> None:
    """An engine that the command leaves behind is ended."""
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    command = (sys.executable, str(script))
    report = observed(command, CONTRACTS[:1], tmp_path / "r", Interrupt(), interactive=True, strict=False)
    (codex,) = report.results
    assert ([call.kind for call in codex.calls], codex.calls[0].exit_code) == (["turn"], None)
    assert [breach.rule for breach in codex.breaches] == ["orchestrator.leaves-nothing-running"]
