"""`turngate history`: what is known of an engine's releases, and what each changed."""

import json
from typing import Any

import pytest

from tests.probes.report.test_history import CODEX
from turngate import cli, history
from turngate.contract.load import first_error


@pytest.fixture(autouse=True)
def _history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "load", {"codex": CODEX}.__getitem__)
    monkeypatch.setattr(history, "engines", lambda: ("codex",))


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Type the command; return its exit code, standard output and standard error."""
    code = cli.run(["history", *words])
    return code, *capsys.readouterr()


def test_a_part_names_only_what_changed_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The ends may be given in either order, and the first one is only what the others are compared with."""
    for ends in (("--from", "0.2.0", "--to", "0.5.0"), ("--from", "0.5.0", "--to", "0.2.0")):
        _, out, _ = typed(capsys, "codex", *ends)
        assert "2 tested releases after 0.2.0 up to 0.5.0" in out
        assert "`--trust`" in out
        assert "0.6.0" not in out
    assert "--from 0.5.0 is newer than --to 0.2.0, so" in typed(capsys, "codex", *ends)[2]


@pytest.mark.parametrize("end", ["v0.2.0", "codex@0.2.0"])
def test_a_release_may_be_written_as_elsewhere(capsys: pytest.CaptureFixture[str], end: str) -> None:
    """As a tag, or with its engine; nothing was in another order."""
    _, out, err = typed(capsys, "codex", "--from", end, "--to", "0.5.0")
    assert ("after 0.2.0 up to 0.5.0" in out, err) == (True, "")


def test_json_holds_the_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """It follows its schema."""
    _, out, _ = typed(capsys, "codex", "--from", "0.3.0", "--json")
    report: dict[str, Any] = json.loads(out)
    assert first_error("history-report", report) is None
    assert [each["version"] for each in report["releases"]] == ["0.6.0", "0.5.0", "0.4.1", "0.4.0"]
    change = {"release": "0.5.0", "since": "0.3.0", "kind": "option", "subject": "--trust", "before": None, "after": ""}
    assert report["releases"][1]["changes"][-1] == change | {"where": ["codex exec --help"]}


def test_without_an_engine_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with how much is known, and its newest release."""
    newest = "newest: 0.6.0 compatible (clause set 2026-11)"
    assert typed(capsys)[1] == f"codex  5 of 8 published releases tested; {newest}\n"
    assert json.loads(typed(capsys, "--json")[1])[0]["tested"] == 5


@pytest.mark.parametrize(
    "words, message",
    [
        (("codex", "--from", "0.3.5"), "codex 0.3.5 is not a release that turngate knows of\nnearest: 0.3.0, 0.4.0"),
        (("--from", "0.3.0"), "--from and --to need an engine"),
        (("codex", "--to", "new"), "codex new is not a release"),
    ],
)
def test_wrong_input_is_answered(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    """The error says what was wrong, and what there is."""
    code, out, err = typed(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
