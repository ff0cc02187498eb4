"""The jobs that merge upgrades automatically: their scripts in a real bash, with a `gh` that records its calls."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.test_docs import blocks

ROOT = Path(__file__).parents[2]
PR = "https://github.com/x/y/pull/7"
GATE = yaml.safe_load((ROOT / ".github/workflows/gate.yml").read_text())
(EXAMPLE,) = [loaded for text in blocks("yaml") if "jobs" in (loaded := yaml.safe_load(text))]
JOBS = [GATE["jobs"]["auto-merge"], EXAMPLE["jobs"]["auto-merge"]]


def program(folder: Path, name: str, code: str) -> None:
    """Write a program in Python."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable}\n{code}")
    (folder / name).chmod(0o755)


def bash(script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does, with programs from a folder."""
    path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    argv = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
    return subprocess.run(argv, cwd=folder, env=path | env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    "required, asked",
    [
        ("false", ["pr", "merge", "--auto", "--squash", PR]),
        ("true", ["pr", "merge", "--disable-auto", PR]),
        ("null", ["pr", "merge", "--disable-auto", PR]),
        ("", ["pr", "merge", "--disable-auto", PR]),
    ],
)
def test_an_upgrade_is_merged_only_if_it_requires_no_changes(
    job: dict[str, Any], required: str, asked: list[str], tmp_path: Path
) -> None:
    """Auto-merge is on only for `false`, not for an unknown answer; `gh` may refuse to turn it off."""
    program(tmp_path / "bin", "gh", "import sys\nprint(sys.argv[1:])\nsys.exit('--disable-auto' in sys.argv)")
    (step,) = job["steps"]
    ended = bash(step["run"], tmp_path, PR=PR, CHANGES_REQUIRED=required)
    assert (ended.returncode, ended.stdout) == (0, f"{asked}\n")


@pytest.mark.parametrize("job", JOBS)
def test_the_job_runs_no_code_of_the_pull_request(job: dict[str, Any]) -> None:
    """The job has merge rights, so it checks nothing out. It runs after a failed gate too, to cancel a merge."""
    (step,) = job["steps"]
    assert set(step) == {"env", "run"}
    assert "${{" not in step["run"]
    assert "!cancelled()" in job["if"]
    assert step["env"]["CHANGES_REQUIRED"] == f"${{{{ needs.{job['needs']}.outputs.changes-required }}}}"


@pytest.mark.parametrize("workflow, gate", [(GATE, "gate"), (EXAMPLE, "may-i-upgrade")])
def test_the_gate_passes_its_answer_on(workflow: dict[str, Any], gate: str) -> None:
    """The gate's answer is an output of its job."""
    assert set(workflow["jobs"][gate]["outputs"]) == {"changes-required"}
    assert workflow["permissions"]["contents"] == "read"


@pytest.mark.parametrize(
    "answers, code, required",
    [
        ([(0, "false")], 0, "false"),
        ([(0, "false"), (0, "true")], 0, "true"),
        ([(0, "true"), (0, "false")], 0, "true"),
        ([(1, "null"), (0, "false")], 1, "null"),
        ([(2, None)], 2, "null"),
        ([], 0, ""),
    ],
)
def test_several_gates_are_one_answer(
    answers: list[tuple[int, str | None]], code: int, required: str, tmp_path: Path
) -> None:
    """Several gates give the worst exit code, and `false` only if all say so; without a report it is unknown."""
    played = """
import sys
from pathlib import Path
code, required = Path(sys.argv[2]).read_text().split()
if required != "None":
    Path("reports").mkdir(exist_ok=True)
    Path(f"reports/{sys.argv[2]}.json").write_text('{"changes_required": %s}' % required)
sys.exit(int(code))
"""
    program(tmp_path / ".venv", "unused", "")
    program(tmp_path / ".venv/bin", "turngate", played)
    for number, answer in enumerate(answers):
        (tmp_path / f"new{number}").write_text(f"{answer[0]} {answer[1]}")
    (tmp_path / "pairs").write_text("".join(f"new{number} old\n" for number in range(len(answers))))
    (step,) = [step for step in GATE["jobs"]["gate"]["steps"] if step.get("id") == "gate"]
    ended = bash(step["run"], tmp_path, GITHUB_OUTPUT=str(tmp_path / "output"))
    assert ended.returncode == code, ended.stderr
    assert (tmp_path / "output").read_text() == f"changes-required={required}\n"
