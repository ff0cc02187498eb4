"""Compiled plans."""

import subprocess
import sys
from pathlib import Path

from turngate import load_contract
from turngate_probes.conform import compiled, executable
from turngate_probes.conform.plan import ConformPlan, Conversation
from turngate_probes.simulate.printing import simulation

PLAN = ("codex", "0.169.0", (Conversation("a", ("p", "r"), "x"),))
SLOW = ("yaml", "semver", "inspect", "dataclasses", "subprocess", "jsonschema", "rich", "click")


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With the contract and the simulation of its release."""
    contract = load_contract("codex", "0.169.0")
    written = compiled.CompiledPlan(ConformPlan(str(tmp_path), *PLAN), contract, simulation(contract))
    compiled.write(written)
    assert compiled.read(tmp_path) == written


def test_an_executable_imports_nothing_slow(tmp_path: Path) -> None:
    """A call takes as long as its imports; neither parsers nor what else takes milliseconds is among them."""
    script = executable.install(ConformPlan(str(tmp_path), *PLAN)).read_text("utf-8")
    asked = script.replace("-X utf8", "-X utf8 -X importtime")
    ran = subprocess.run(
        ["sh", "-c", asked, "codex", "exec", "--json", "--skip-git-repo-check", "-"],
        input=b"hello",
        capture_output=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        check=True,
    )
    assert b"turn.completed" in ran.stdout
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.decode().splitlines()}
    assert "turngate_probes.conform.player" in imported
    assert imported.intersection(SLOW) == set()


def test_an_executable_imports_nothing_of_the_workspace(tmp_path: Path) -> None:
    """Neither its files nor PYTHONPATH take the place of a module."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    path = executable.install(ConformPlan(str(tmp_path), *PLAN))
    ran = subprocess.run(
        [path, "--version"],
        capture_output=True,
        cwd=tmp_path,
        check=False,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
    )
    assert (ran.returncode, b"0.169.0" in ran.stdout) == (0, True), ran.stderr
    assert sys.executable in path.read_text("utf-8")
