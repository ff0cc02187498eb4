"""The composite action and the pre-commit hook, with the action's own steps in a real bash."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from msgspec.structs import replace

from tests.probes.gate import views
from turngate.cli import run, turngate
from turngate_probes.report.publish import json_text
from turngate_probes.report.reports import GateReport

ROOT = Path(__file__).parents[2]
ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = ACTION["runs"]["steps"]
REPORTS = [f"turngate.{suffix}" for suffix in ("json", "xml", "sarif", "md", "html")]


def played(
    folder: Path, code: int = 0, *, made: Mapping[str, str] = {"turngate": "{}"}, **inputs: str
) -> tuple[int, list[str], dict[str, str]]:
    """Run the step `run` with a turngate that records its arguments; return exit code, arguments and outputs.

    For each of `made`, which maps names to JSON, it writes the JSON report and an empty SARIF report.
    """
    program = folder / "turngate/bin/turngate"
    program.parent.mkdir(parents=True)
    quoted = shlex.quote(str(folder / "argv"))
    written = "mkdir -p turngate-reports\n"
    for name, report in made.items():
        (folder / f"{name}.json").write_text(report)
        written += f"cp {shlex.quote(str(folder / name))}.json turngate-reports; : > turngate-reports/{name}.sarif\n"
    noting = f"for each; do printf '%s\\0' \"$each\"; done > {quoted}"
    program.write_text(f"#!/bin/sh\n{noting}\n{written}\nexit {code}\n")
    program.chmod(0o755)
    (step,) = [step for step in STEPS if step.get("id") == "run"]
    usual = {name: str(given["default"]) for name, given in ACTION["inputs"].items()} | inputs
    env = {key: usual[value[len("${{ inputs.") : -len(" }}")]] for key, value in step["env"].items()}
    env |= {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output")}
    (folder / "script").write_text(step["run"])
    (folder / "star.txt").touch()
    argv = ("bash", "--noprofile", "--norc", "-eo", "pipefail", folder / "script")
    ended = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    outputs = (folder / "output").read_text() if (folder / "output").exists() else ""
    words = (folder / "argv").read_text().split("\0")[:-1] if (folder / "argv").exists() else []
    return ended.returncode, words, dict(line.split("=", 1) for line in outputs.splitlines())


def test_targets_and_options_reach_the_command(tmp_path: Path) -> None:
    """Targets and options are passed as separate words, unchanged by the shell, and every report is requested."""
    code, words, _ = played(
        tmp_path, targets="codex@0.169.0\n  gemini", options="--strict", reports="out put", command="probe"
    )
    assert code == 0
    wanted = [word for name in REPORTS for word in ("--report", f"out put/{name}")]
    assert words == ["probe", "codex@0.169.0", "gemini", "--strict", *wanted]


def test_an_input_is_never_a_program(tmp_path: Path) -> None:
    """Inputs reach neither the shell nor the runner's expressions as code."""
    _, words, _ = played(tmp_path, targets='$(touch hacked) `touch hacked`; * "x')
    assert words[1:8] == ["$(touch", "hacked)", "`touch", "hacked`;", "*", '"x', "--report"]
    assert not (tmp_path / "hacked").exists()
    assert not any("${{" in step.get("run", "") for step in STEPS)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 130])
def test_the_exit_code_is_an_output_and_that_of_the_action(tmp_path: Path, code: int) -> None:
    """The step itself succeeds so that reports are uploaded; the last step exits with turngate's exit code."""
    ended, _, outputs = played(tmp_path, code)
    expected = {"exit-code": str(code), "changes-required": "", "sarif": "turngate-reports/turngate.sarif"}
    assert (ended, outputs) == (0, expected)
    last = subprocess.run(("bash", "-e", "-c", STEPS[-1]["run"]), env={"CODE": str(code)}, check=False)
    assert last.returncode == code
    assert STEPS[-1]["if"] == "inputs.fail == 'true'"


def test_a_report_that_was_not_written_is_no_output(tmp_path: Path) -> None:
    """If turngate wrote no report, there is no output to upload."""
    assert played(tmp_path, 2, made={})[2] == {"exit-code": "2", "changes-required": ""}


@pytest.mark.parametrize(
    "make, code, command, required",
    [
        (views.green_with_changes, 0, "gate", "true"),
        (lambda: views.of(views.release(views.NEW), views.release("codex@0.170.0")), 0, "gate", "false"),
        (views.red_by_all, 1, "gate", ""),
        (views.green_with_changes, 0, "probe", ""),
    ],
)
def test_a_green_gate_says_whether_changes_are_required(
    tmp_path: Path, make: Callable[[], GateReport], code: int, command: str, required: str
) -> None:
    """The output comes from the gate's report; a failed gate and a probe have none."""
    _, _, outputs = played(tmp_path, code, made={"turngate": json_text(make())}, command=command)
    assert outputs["changes-required"] == required


UNCHANGED, CHANGED = views.of(views.release(views.NEW), views.release("codex@0.170.0")), views.green_with_changes()
UNKNOWN = replace(UNCHANGED, changes_required=None)


@pytest.mark.parametrize(
    "made, required",
    [
        ((UNCHANGED, UNCHANGED), "false"),
        ((UNCHANGED, CHANGED), "true"),
        ((UNKNOWN, UNCHANGED), ""),
    ],
)
def test_the_outputs_cover_every_engine_of_a_gate(
    tmp_path: Path, made: tuple[GateReport, GateReport], required: str
) -> None:
    """Each engine has reports of its own: the folder is what to upload, and no engine with changes is overlooked."""
    reports = {f"turngate-{engine}": json_text(report) for engine, report in zip(("a", "b"), made, strict=True)}
    _, _, outputs = played(tmp_path, made=reports, command="gate")
    assert outputs == {"exit-code": "0", "changes-required": required, "sarif": "turngate-reports"}


def test_another_command_is_refused(tmp_path: Path) -> None:
    """Another command is rejected with a list of the supported ones."""
    code, words, _ = played(tmp_path, command="simulate")
    assert (code, words) == (2, [])


def test_every_command_of_the_action_takes_its_options() -> None:
    """Every command that the action supports accepts its report options."""
    context = click.Context(turngate)
    offered = [name for name in ("probe", "gate") if name in turngate.list_commands(context)]
    assert "probe" in offered
    for name in offered:
        command = turngate.get_command(context, name)
        assert "--report" in [flag for option in command.params for flag in option.opts]


def test_the_action_is_of_the_known_shape() -> None:
    """Every shell step names its shell, as composite actions must, and every action used has a version."""
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert ("run" in step) == ("shell" in step)
        assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
    assert all(set(given) == {"description", "default"} for given in ACTION["inputs"].values())
    assert json.dumps(ACTION)


@pytest.mark.long
def test_the_hook_lints_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    """The hook's command and file pattern match the contracts of this checkout."""
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    files = [path for path in (ROOT / "contracts").rglob("*") if re.search(hook["files"], path.as_posix())]
    assert {path.parent.name for path in files} == {"engines", "simulations"}
    program, *words = shlex.split(hook["entry"])
    assert (program, hook["language"]) == ("turngate", "python")
    assert run([*words, *map(str, files)]) == 0
    *said, after = capsys.readouterr().out.splitlines()
    assert len(said) == len(files)
    assert after.startswith("next: turngate probe ")
