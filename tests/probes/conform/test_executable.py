"""The executables of a plan."""

from pathlib import Path

from turngate.process.executable import is_simulated
from turngate_probes.conform import compiled, executable
from turngate_probes.conform.plan import ConformPlan, Conversation
from turngate_probes.simulate.faults import Play


def test_it_is_written_and_upgraded_once(tmp_path: Path) -> None:
    """The plan can be read back; an upgrade replaces the file, and a second one changes nothing."""
    plan = ConformPlan(str(tmp_path), "codex", "0.169.0", (Conversation("a", ("p", "r"), "x"),), (Play(bom=True),))
    path = executable.install(plan)
    before = path.stat().st_ino
    assert (path.name, is_simulated(path), compiled.read(tmp_path).plan) == ("codex", True, plan)
    assert executable.upgrade(plan) == "0.169.1"
    assert executable.upgrade(plan) == "0.169.1"
    assert (compiled.read(tmp_path).plan.version, path.stat().st_ino != before) == ("0.169.1", True)
    assert [item.name for item in path.parent.iterdir()] == ["codex"]
