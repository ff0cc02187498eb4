"""docs/orchestrators.md shows what docs/orchestrators.json has, in which each measurement replaces its own row."""

from pathlib import Path

import msgspec
import pytest

from tests.conform import __main__ as command
from tests.conform import page
from tests.conform.measured import Measured, load, save
from tests.conform.real import ORCHESTRATORS, Orchestrator
from tests.probes.conform.reports import REPORT
from turngate_probes.conform.conform_report import ConformReport

NAMES = [one.name for one in ORCHESTRATORS]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command write into a folder of its own, and return its JSON, in which the last orchestrator is old."""
    file = tmp_path / "orchestrators.json"
    old = Measured(NAMES[-1], "old@1.0", "gemini", "0.1.0", "2020-01-01", 1, 2, 3, ())
    save(file, (old, msgspec.structs.replace(old, name="withdrawn")))
    monkeypatch.setattr(command, "KEPT", file)
    monkeypatch.setattr(command, "PAGE", tmp_path / "orchestrators.md")
    return file


def test_the_page_is_what_the_json_gives() -> None:
    """After a change of a sentence on it, `make orchestrators ARGS=--render` updates the page."""
    assert page.PAGE.read_text("utf-8") == page.rendered(load(page.KEPT))
    assert [row.name for row in load(page.KEPT)] == NAMES


def test_a_measurement_replaces_its_own_row(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others keep their package, release and day, and one that is not there any more is dropped."""
    monkeypatch.setattr(Orchestrator, "conform", lambda *_: REPORT)
    assert command.main(NAMES[:1]) == 0
    new, old = load(kept)
    assert (new.name, new.day, new.passed, new.failed, new.skipped) == (NAMES[0], REPORT.started_at[:10], 1, 3, 1)
    assert (old.name, old.package, old.day) == (NAMES[-1], "old@1.0", "2020-01-01")
    written = kept.with_suffix(".md").read_text("utf-8")
    assert written == page.rendered((new, old))
    assert "1.0 | gemini 0.1.0 | 2020-01-01 | 1 | 2 | 3 |" in written
    assert "| it was still running \\| after 25 s  |\n" in written


def test_one_that_fails_keeps_its_row(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are measured all the same, and the exit code is 1."""

    def conform(one: Orchestrator, *_: object) -> ConformReport:
        if one.name == NAMES[-1]:
            raise RuntimeError("not in the registry")
        return REPORT

    monkeypatch.setattr(Orchestrator, "conform", conform)
    assert command.main([]) == 1
    assert [row.name for row in load(kept)] == NAMES
    assert load(kept)[-1].day == "2020-01-01"
    assert f"failed: {NAMES[-1]}; their rows of the page stay" in capsys.readouterr().err


def test_an_unknown_name_is_refused(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused with exit code 2 before anything is measured."""
    with pytest.raises(SystemExit, match="2"):
        command.main(["codex-sdk"])
    assert f"no orchestrator 'codex-sdk'; there are: {', '.join(NAMES)}" in capsys.readouterr().err
    assert not kept.with_suffix(".md").exists()
