"""The command that says which engines a machine and a project use."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.acceptance.command import Command
from turngate import cli, engine_names, history
from turngate.contract.load import first_error
from turngate.contract.verdict import Verdict
from turngate.files import contract_files, use_overlay
from turngate_probes.cli.doctor import doctor

ROOT = Path(__file__).parents[3]
CODEX = history.load("codex")
SAFE = CODEX.newest_safe()


@pytest.fixture(name="project", autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty project without an engine on PATH."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return project


def pin(project: Path, version: str) -> None:
    """Pin a release of codex."""
    (project / "package.json").write_text(f'{{"dependencies": {{"@openai/codex": "{version}"}}}}')


def run(*, color: bool = False) -> Result:
    """Run the command."""
    return CliRunner().invoke(doctor, standalone_mode=False, color=color)


def test_a_pinned_release_has_a_verdict_and_actions(project: Path) -> None:
    """A line says release, verdict and place, and what an orchestrator must do comes below."""
    assert SAFE
    pin(project, SAFE.version)
    ended = run()
    first, *more = ended.output.splitlines()
    assert first.startswith("codex ")
    assert f"{SAFE.version}  compatible  clause set {SAFE.clause_set}" in first
    assert first.split()[-2:] == ["resumable", "package.json:1"]
    assert more[0] == "  What your orchestrator must do"
    guarded = (
        f"codex@{SAFE.version} is compatible only with turngate's guards, which `turngate explain codex@{SAFE.version}`"
    )
    assert guarded in " ".join(ended.output.split())
    said = "exit code 0: each release that was found is compatible by its clause set"
    assert more[-2:] == [f"No program in {project} was run.", said]
    assert ended.return_value == 0


def test_docs_show_what_the_command_prints(project: Path) -> None:
    """docs/getting-started.md shows the output for a Dockerfile with its line."""
    page = (ROOT / "docs" / "getting-started.md").read_text("utf-8")
    found = re.search(r"the line `(?P<line>RUN .+?)`.*?^```text\n(?P<output>.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found
    (project / "Dockerfile").write_text(f"FROM node:22\n{found['line']}\n")
    assert run().output.startswith(f"{found['output']}\nNo program in ")


def test_an_unknown_release_says_how_to_test_it(project: Path) -> None:
    """The nearest release that was tested and a command are named."""
    assert SAFE
    pin(project, "0.9999.0")
    ended = run()
    assert "codex  0.9999.0  unknown" in ended.output
    assert "doesn't know this release; the nearest that it tested: 0." in ended.output
    assert "  What your orchestrator must do, by the contract\n" in ended.output
    assert "  test it: turngate probe codex@0.9999.0\n" in ended.output
    assert ended.output.endswith("exit code 2: no verdict on codex@0.9999.0\n")
    assert ended.return_value == 2


def test_the_command_that_tests_names_the_contracts_where_they_were_asked_for(project: Path) -> None:
    """A contract of the user's own is in no other command."""
    (project / "my own/engines").mkdir(parents=True)
    (project / "my own/engines/codex.yaml").write_text(contract_files()["codex"].read_text("utf-8"))
    pin(project, "0.9999.0")
    use_overlay(project / "my own")
    try:
        said = run().output
    finally:
        use_overlay(None)
    assert f"turngate --contracts '{project}/my own' probe codex@0.9999.0\n" in said


def test_a_release_that_could_not_be_tested_is_to_be_tried(project: Path) -> None:
    """Whether it can be installed here is another question than whether it was tested."""
    lost = next(each for each in CODEX.releases if each.verdict is Verdict.UNANSWERED)
    pin(project, lost.version)
    assert f"  try it here: turngate probe codex@{lost.version}\n" in run().output


def test_a_failure_is_told_once(project: Path) -> None:
    """A broken release says which clauses fail, and does not repeat the worst of them."""
    broken = next(each for each in reversed(CODEX.releases) if each.verdict is Verdict.BROKEN)
    pin(project, broken.version)
    clause = broken.why.partition(":")[0]
    lines = [line for line in run().output.splitlines() if line.startswith(f"  {clause}")]
    assert len(lines) == 1
    assert lines[0].startswith(f"  {clause} fails: ")


def test_words_have_colours_only_at_a_terminal(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe gets no colours, nor does a terminal with NO_COLOR."""
    assert SAFE
    pin(project, SAFE.version)
    assert "\x1b[32mcompatible\x1b[0m" in run(color=True).output
    assert "\x1b" not in run().output
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(color=True).output


def test_a_name_of_a_file_forges_no_line(project: Path) -> None:
    """Control characters in names are escaped."""
    assert SAFE
    (project / "x\x1b.Dockerfile").write_text(f"RUN npm install @openai/codex@{SAFE.version}")
    assert "x\\x1b.Dockerfile:1" in run().output


def test_without_anything_it_says_so() -> None:
    """Nothing on PATH and no pin is no answer: the output names what was looked for, and what to do."""
    ended = run()
    said = " ".join(ended.output.split())
    assert said.startswith(
        "No engine is on PATH, and no file in this folder or below it names one. turngate looked for "
    )
    assert {*engine_names()} < {*re.findall(r"\w+", said)}
    assert "`turngate probe codex`" in said
    assert ended.output.endswith("exit code 2: nothing was found\n")
    assert ended.return_value == 2


def test_a_folder_that_is_gone_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a working directory, there is no project to look at."""
    project.rmdir()
    assert cli.run(["doctor"]) == 2
    assert "the working directory can't be used: No such file or directory" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_answers_without_a_home(tmp_path: Path) -> None:
    """In a process of its own, the JSON keeps its schema, and the project's program is not run."""
    assert SAFE
    for at, script in (("bin/codex", f"echo codex-cli {SAFE.version}"), ("project/gemini", f"echo >{tmp_path}/ran")):
        file = tmp_path / at
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    pin(tmp_path / "project", "0.9999.0")
    path = f"{tmp_path}/bin:{tmp_path}/project:/usr/bin:/bin"
    env = (("HOME", ""), ("TURNGATE_CACHE_DIR", str(tmp_path / "cache")))
    ended = Command(tmp_path / "project", path, env).run("doctor", "--json")
    assert (ended.code, ended.err) == (2, "")
    assert first_error("doctor-report", ended.report) is None
    assert [(each["engine"], each["version"], each["knowledge"]) for each in ended.report["releases"]] == [
        ("codex", SAFE.version, "tested"),
        ("codex", "0.9999.0", "unknown"),
        ("gemini", None, "not_run"),
    ]
    assert json.loads(ended.out)["not_run_from"] == str(tmp_path / "project")
    assert not (tmp_path / "ran").exists()


def test_the_place_without_a_release_is_the_reason_and_not_the_one_with_a_verdict(project: Path) -> None:
    """The last line agrees with what stands above it."""
    assert SAFE
    pin(project, "latest")
    (project / "Dockerfile").write_text(f"RUN npm install -g @openai/codex@{SAFE.version}\n")
    assert run().output.endswith("exit code 2: package.json:1 pins no release of codex\n")
