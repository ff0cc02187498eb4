"""The command `gate`; what it does is tested with its modules."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.probes.gate import views
from turngate import cli
from turngate_probes.gate import decision


@pytest.mark.parametrize(
    "args, message",
    [
        (("codex",), "'codex' is not a release"),
        (("codex@0.170.0", "--from", "gemini@0.61.0"), "and"),
        (("codex@0.170.0", "--from", "codex@0.170.0"), "codex@0.170.0 would be compared with itself"),
        (("codex=./codex", "--from", "codex=codex"), "codex=codex would be compared with itself"),
        (("codex@0.170.0", "--clause", "no.such"), "no.such"),
        (("codex@0.170.0", "--baseline", "absent.yaml"), "'absent.yaml' does not exist"),
        (("codex@0.170.0", "--cache-limit", "much"), "much"),
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


def test_nothing_is_published_when_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interrupt before the first result prints nothing and exits with 130."""
    monkeypatch.setattr(decision, "answer", Mock(side_effect=KeyboardInterrupt))
    assert cli.run(["gate", "codex@0.169.0", "--from", "codex@0.160.0"]) == 130
    assert capsys.readouterr().out == ""
