"""The command `gate`; what it does is tested with its modules."""

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.probes.gate import views
from tests.tables import each
from turngate import NotFoundError, cli
from turngate_probes.gate import decision


@each(
    "args, message",
    [
        (("codex", "--from", "codex"), "'codex' is not a release\nwrite codex@latest, codex@VERSION or codex=PATH"),
        (("kimi",), "'kimi' is not a release\nwrite kimi=PATH"),
        (("codex@0.170.0", "--from", "gemini@0.61.0"), "and"),
        (("codex@0.147.0", "codex@0.169.0"), "so the one in use needs --from"),
        (("codex@0.170.0", "--clause", "no.such"), "no.such"),
        (("codex@0.170.0", "--clause", "resume.long-session"), "its level is long"),
        (("codex@0.170.0", "--baseline", "absent.yaml"), "'absent.yaml' does not exist"),
        (("codex@0.170.0", "--cache-limit", "much"), "much"),
        (("codex@0.170.0", "--report", "a.html", "--report", "./a.html"), "a file is named twice"),
    ],
)
def test_a_wrong_question_is_refused_before_anything_runs(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invalid arguments end with exit code 2 before anything runs."""
    assert cli.run(["gate", *args]) == 2
    assert message in capsys.readouterr().err


def test_the_answer_is_published_and_its_code_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is printed, written to each requested file, and returned as the exit code."""
    answer = Mock(return_value=views.red_by_a_tool())
    monkeypatch.setattr(decision, "answer", answer)
    page, data = tmp_path / "gate.html", tmp_path / "gate.json"
    args = ("codex@0.169.0", "--from", "codex@0.160.0", "--clause", "handle.present", "--jobs", "3")
    assert cli.run(["gate", *args, "--report", str(data), "--report", str(page)]) == 1
    assert "codex@0.169.0: red, do not upgrade from codex@0.160.0" in capsys.readouterr().out
    assert json.loads(data.read_text())["outcome"] == "fail"
    assert page.read_text().startswith("<!DOCTYPE html>")
    question = answer.call_args.args[0]
    assert (str(question.old), str(question.new)) == ("codex@0.160.0", "codex@0.169.0")
    assert (question.settings.probe.clauses, question.settings.probe.jobs) == (("handle.present",), 3)


def test_an_engine_without_a_version_means_its_newest_release(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`turngate gate codex` asks about the newest published release."""
    answer = Mock(return_value=views.red_by_a_tool())
    monkeypatch.setattr(decision, "answer", answer)
    assert cli.run(["gate", "codex"]) == 1
    assert str(answer.call_args.args[0].new) == "codex@latest"
    capsys.readouterr()
    assert cli.run(["gate", "codex", "--show-settings"]) == 0
    shown = capsys.readouterr().out
    assert shown.split()[:3] == ["engine", "codex@latest", "argument"]
    assert "turngate's own pin, perhaps not yours\n" in shown


def test_long_sessions_are_tested_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --long, both releases are probed at level long, else without it."""
    answer = Mock(return_value=views.red_by_a_tool())
    monkeypatch.setattr(decision, "answer", answer)
    for options, level in (
        (("--long",), "long"),
        (("--long", "--clause", "resume.long-session"), "long"),
        ((), "hermetic"),
    ):
        cli.run(["gate", "codex@0.169.0", "--from", "codex@0.160.0", *options])
        assert answer.call_args.args[0].settings.probe.level == level


def test_nothing_is_published_when_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt before the first result prints nothing and exits with 130."""
    monkeypatch.setattr(decision, "answer", Mock(side_effect=KeyboardInterrupt))
    assert cli.run(["gate", "codex@0.169.0", "--from", "codex@0.160.0"]) == 130
    assert capsys.readouterr().out == ""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with settings and with a pin of an engine; the user has no settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "package.json").write_text('{"dependencies": {"@openai/codex": "0.160.0"}}')
    (folder / "turngate.toml").write_text('engines = ["codex@0.169.0"]\nfail-on = "caveat"\nreports = ["gate.json"]\n')
    return folder


def test_a_bare_gate_reads_settings_and_pins(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The releases, the problems that fail the gate and the reports come from the project."""
    answer = Mock(return_value=views.red_by_a_tool())
    monkeypatch.setattr(decision, "answer", answer)
    assert cli.run(["gate"]) == 1
    question = answer.call_args.args[0]
    assert (str(question.old), str(question.new)) == ("codex@0.160.0", "codex@0.169.0")
    assert question.settings.probe.fail_on == "caveat"
    assert json.loads((project / "gate.json").read_text())["outcome"] == "fail"


@pytest.mark.parametrize(
    "args, fail_on",
    [((), "caveat"), (("--strict",), "degraded"), (("--fail-on", "broken"), "broken")],
)
def test_options_override_settings(
    project: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], fail_on: str
) -> None:
    """What the command line says counts, whatever the project sets."""
    answer = Mock(return_value=views.red_by_a_tool())
    monkeypatch.setattr(decision, "answer", answer)
    report = ("--report", str(project / "mine.md"))
    cli.run(["gate", "codex@0.170.0", "--from", "codex@0.168.0", *report, *args])
    question = answer.call_args.args[0]
    assert (str(question.old), str(question.new)) == ("codex@0.168.0", "codex@0.170.0")
    assert question.settings.probe.fail_on == fail_on
    assert sorted(path.name for path in project.iterdir()) == ["mine.md", "package.json", "turngate.toml"]


def test_settings_are_shown_with_their_places(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each value has its place, and nothing is tested."""
    monkeypatch.setattr(decision, "answer", Mock(side_effect=AssertionError))
    assert cli.run(["gate", "--strict", "--show-settings"]) == 0
    file = project / "turngate.toml"
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["engine", "codex@0.169.0", str(file)],
        ["in", "use", "codex@0.160.0", "package.json:1"],
        ["fail-on", "degraded", "command", "line"],
        ["baseline", "none", "default"],
        ["reports", str(project / "gate.json"), str(file)],
        ["contracts", "none", "default"],
    ]


def test_a_release_in_use_of_an_engine_that_is_not_tested_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`in-use` of another engine has no effect, and the gate of all engines says so."""
    (project / "turngate.toml").write_text('in-use = ["gemini@0.60.0"]\n')
    why = "has no effect, because its engine is not tested"
    monkeypatch.setattr(decision, "answer", Mock(return_value=views.green_by_baseline()))
    for args in ((), ("--show-settings",), ("codex@latest",)):
        cli.run(["gate", *args])
        told = [line for line in capsys.readouterr().out.splitlines() if why in line]
        assert ["gemini@0.60.0" in line for line in told] == ([] if args == ("codex@latest",) else [True])
    (project / "package.json").unlink()
    assert cli.run(["gate"]) == 2
    assert "neither `engines` in settings nor a file here names one" in capsys.readouterr().err


def test_settings_without_an_engine_are_shown_but_test_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user sees what is in force before anything names an engine; a gate says what to do about that."""
    for file in project.iterdir():
        file.unlink()
    assert cli.run(["gate", "--show-settings"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.split(maxsplit=2) == ["engine", "none", "neither settings nor a file here names one"]
    assert cli.run(["gate"]) == 2
    assert "turngate gate ENGINE, or" in capsys.readouterr().err


def test_a_range_is_told_from_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bare gate names the file that has a range in place of a release, and says what to do about it."""
    (project / "turngate.toml").unlink()
    (project / "package.json").write_text('{"dependencies": {"@openai/codex": "^0.169.0"}}')
    assert cli.run(["gate"]) == 2
    told = capsys.readouterr().err
    assert "no release to test: package.json:1: `^0.169.0` names no single release of codex\n" in told
    assert "name the exact release there, or both here: turngate gate ENGINE --from ENGINE@VERSION" in told


def test_several_engines_are_tested_in_turn(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each engine has reports of its own, and the worst exit code counts; --json and --from are for one engine."""
    (project / "turngate.toml").write_text(
        'engines = ["codex", "gemini"]\nin-use = ["gemini@0.60.0"]\nreports = ["gate.md"]\n'
    )
    monkeypatch.setattr(decision, "answer", Mock(side_effect=[views.red_by_a_tool(), views.green_by_baseline()]))
    assert cli.run(["gate"]) == 1
    assert capsys.readouterr().out.endswith("\nexit code 1: that of the worst gate\n")
    assert sorted(path.name for path in project.glob("*.md")) == ["gate-codex.md", "gate-gemini.md"]
    for args in (["--json"], ["--from", "codex@0.1.0"]):
        assert cli.run(["gate", *args]) == 2
        assert "name it: turngate gate codex@latest" in capsys.readouterr().err


@each("answers, code", [(("red", "error", "green"), 1), (("error", "green", "error"), 2)])
def test_an_engine_that_cannot_be_tested_does_not_end_the_gate_of_others(
    answers: tuple[str, ...],
    code: int,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It counts as unanswered, which is less bad than red, and the summary names it."""
    (project / "turngate.toml").write_text('engines = ["codex", "gemini", "opencode"]\n')
    kinds = {
        "red": views.red_by_a_tool(),
        "green": views.green_by_baseline(),
        "error": NotFoundError("it has no version 9.9.9", "nearest: 1.0.0"),
    }
    monkeypatch.setattr(decision, "answer", Mock(side_effect=[kinds[name] for name in answers]))
    assert cli.run(["gate"]) == code
    told = capsys.readouterr()
    failed = [name for name, kind in zip(("codex", "gemini", "opencode"), answers, strict=True) if kind == "error"]
    errors = [f"Error: {name}@latest: it has no version 9.9.9\nnearest: 1.0.0\n" for name in failed]
    assert told.err == "".join(errors)
    summary = told.out.splitlines()[-len(failed) - 1 :]
    assert summary == [
        *(f"{name}@latest: it has no version 9.9.9" for name in failed),
        f"exit code {code}: that of the worst gate",
    ]


def test_other_commands_read_no_settings(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings that `gate` refuses stop no other command."""
    (project / "turngate.toml").write_text('contracts = "evil"\n')
    assert cli.run(["gate"]) == 2
    assert "a project can't choose a folder of contracts" in capsys.readouterr().err
    for command in (["handles", "list"], ["engines", "list"], ["start", "codex=/absent", "Hello"]):
        cli.run(command)
        assert "a project" not in capsys.readouterr().err


@pytest.mark.long
def test_the_program_reads_the_settings_of_its_working_directory(project: Path) -> None:
    """The installed command finds the project's settings, and names a mistake in them without a traceback."""
    command = (Path(sys.executable).with_name("turngate"), "gate", "--show-settings")
    shown = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (shown.returncode, "codex@0.160.0" in shown.stdout, shown.stderr) == (0, True, "")
    (project / "turngate.toml").write_text('fial-on = "caveat"\n')
    refused = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"Error: {project}/turngate.toml: fial-on: unknown key (did you mean fail-on?)\n"


def test_settings_are_not_shown_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Silence about --json would give a script something else than it asked for."""
    assert cli.run(["gate", "codex", "--show-settings", "--json"]) == 2
    assert "--show-settings prints no JSON" in capsys.readouterr().err
