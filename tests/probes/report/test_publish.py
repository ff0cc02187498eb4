import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.load import first_error
from turngate.errors import EnvironmentFailed
from turngate_probes.cli import options
from turngate_probes.journal.journal import read
from turngate_probes.report.build import build
from turngate_probes.report.publish import FORMATS, console_for, write_json
from turngate_probes.report.publish import publish as publish_report
from turngate_probes.report.structs import ProbeReport

WHOLE = [j.started(), j.planned(), j.turn(), *j.clauses(), j.finished(), j.ended()]


def publish(journal: Path, console: Console, json_to: str | None = None) -> int:
    """Publish what a journal holds."""
    return publish_report(build(read(journal)), console, json_to, (), journal)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A complete journal on disk."""
    return j.written(tmp_path / "journal.ndjson", *WHOLE)


def test_publish_writes_both_reports_and_gives_the_exit_code(journal: Path, tmp_path: Path) -> None:
    """JSON by its schema, text to the console, and the code to exit with."""
    console = Console(file=io.StringIO())
    code = publish(journal, console, str(tmp_path / "new" / "report.json"))
    report = json.loads((tmp_path / "new" / "report.json").read_text())
    assert code == report["exit_code"] == 0
    assert first_error("probe-report", report) is None
    assert isinstance(console.file, io.StringIO)
    assert "compatible" in console.file.getvalue()
    assert str(journal) in console.file.getvalue()


def test_a_torn_journal_is_published(journal: Path, tmp_path: Path) -> None:
    """After a crash there is a valid report of what is known."""
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) * 2 // 3])
    code = publish(journal, Console(file=io.StringIO()), str(tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert code == report["exit_code"] == 130
    assert report["releases"][0]["verdict"] == "unanswered"


def test_json_on_standard_output_leaves_it_to_the_json(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `-` a program can read standard output, and people standard error."""
    publish(journal, console_for("-"), "-")
    captured = capsys.readouterr()
    assert json.loads(captured.out)["schema"] == "turngate.probe-report/2"
    assert "compatible" in captured.err
    assert "\x1b" not in captured.out + captured.err


def test_without_json_text_is_on_standard_output(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is on standard error when there is nothing to tell apart."""
    publish(journal, console_for(None))
    captured = capsys.readouterr()
    assert "compatible" in captured.out
    assert captured.err == ""


def test_an_older_report_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Readers see the old report or the new one, also through a link, and no half-written file stays."""
    target, link = tmp_path / "report.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_json(build(WHOLE), str(link))
    assert json.loads(target.read_text())["turngate"] == "0.1.0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "report.json"]
    assert link.is_symlink()


def test_a_report_that_can_not_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs neither the old report nor leaves a part of the new one."""
    target = tmp_path / "report.json"
    target.write_text("old")

    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(EnvironmentFailed, match="No space left"):
        write_json(build(WHOLE), str(target))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "old")]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """`--json /dev/fd/3` and named pipes work."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_json(build(WHOLE), str(pipe))
    reader.join(10)
    assert json.loads(got[0])["turngate"] == "0.1.0"


def test_a_report_that_breaks_its_schema_is_not_written(tmp_path: Path) -> None:
    """Such a report is our mistake and is told as one."""
    report = structs.replace(build(WHOLE), exit_code=-1)
    with pytest.raises(ValueError, match="exit_code"):
        write_json(report, str(tmp_path / "report.json"))
    assert list(tmp_path.iterdir()) == []


def test_secrets_and_registries_are_in_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever an engine printed, neither key nor registry is shown."""
    key, host = "sk-" + "a1B2" * 6, "registry.example.com"
    output = {"bytes": 9, "excerpt": f"GET https://{host}/codex Authorization: Bearer {key}"}
    turn = j.turn(stdout=output, stderr=output, argv=["codex", f"--api-key={key}"])
    missed = j.clause("handle.present", "fail", detail=f"asked {host} with {key}")
    events = [j.started(), j.planned(note=f"from {host}"), turn, missed, j.failed(what=f"{host} is away")]
    publish(j.written(tmp_path / "journal", *events), console_for("-"), "-")
    captured = capsys.readouterr()
    for shown in (captured.out, captured.err):
        assert "<package-registry>" in shown
        assert "<secret>" in shown
        assert key not in shown
        assert host not in shown


def test_text_that_the_terminal_can_not_encode_is_escaped(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that prints umlauts does not crash the report on an ASCII terminal."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    console_for(None).print("größer")
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"


def write_reports(report: ProbeReport, paths: list[Path]) -> None:
    """Publish a report in these files."""
    publish_report(report, Console(file=io.StringIO()), None, paths)


@pytest.mark.parametrize("suffix, begin", [
    (".json", "{"), (".xml", "<?xml"), (".sarif", "{"), (".md", "## "), (".html", "<!DOCTYPE html>"),
])  # fmt: skip
def test_the_suffix_says_the_format(tmp_path: Path, suffix: str, begin: str) -> None:
    """In either case of letters; the folder is made, and hostile text can be written."""
    for report, name in ((samples.mixed(), f"new/report{suffix}"), (samples.hostile(), f"REPORT{suffix.upper()}")):
        write_reports(report, [tmp_path / name])
        assert (tmp_path / name).read_text("utf-8").startswith(begin)


def test_every_format_is_tested_and_told() -> None:
    """A format that is added is named in the help too."""
    assert list(FORMATS) == [".json", ".xml", ".sarif", ".md", ".html"]
    assert all(suffix in options.FORMATS for suffix in FORMATS)


def test_json_holds_the_report_itself(tmp_path: Path) -> None:
    """It is what `--json` writes."""
    write_reports(samples.mixed(), [tmp_path / "a.json"])
    assert json.loads((tmp_path / "a.json").read_text()) == samples.plain(samples.mixed())


def test_a_file_that_can_not_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of the new one stays."""
    (tmp_path / "a.html").write_text("old")

    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(EnvironmentFailed, match=r"a\.html.*No space left"):
        write_reports(samples.mixed(), [tmp_path / "a.html"])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.html", "old")]


def test_a_report_that_breaks_its_schema_is_written_nowhere(tmp_path: Path) -> None:
    """Such a report is our mistake and is told as one."""
    with pytest.raises(ValueError, match="exit_code"):
        write_reports(structs.replace(samples.mixed(), exit_code=-1), [tmp_path / "a.md"])
    assert list(tmp_path.iterdir()) == []
