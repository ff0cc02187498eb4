import io
import json
import os
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.load import first_error
from turngate.errors import MachineError
from turngate_probes.journal.journal import read
from turngate_probes.report import FORMATS
from turngate_probes.report.build import build
from turngate_probes.report.publish import Printer, checked, publish, write_reports
from turngate_probes.report.release_view import view

WHOLE = [j.started(), j.planned(), j.turn(), *j.clauses(), j.finished(), j.ended()]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Write a complete journal to a file."""
    return j.written(tmp_path / "journal.ndjson", *WHOLE)


def test_publish_writes_both_reports_and_gives_the_exit_code(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON report matches its schema, the text is printed, and the exit code is returned."""
    file = tmp_path / "new" / "report.json"
    code = publish(view(build(read(journal))), Printer(reports=(file,)), journal)
    report, printed = json.loads(file.read_text()), capsys.readouterr().out
    assert code == report["exit_code"] == 0
    assert first_error("probe-report", report) is None
    assert "compatible" in printed
    assert str(journal) in printed


def test_a_verdict_is_not_lost_with_its_report(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a report can't be written, the verdict and the place of the journal are printed all the same."""
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="can't write the report"):
        publish(view(build(read(journal))), Printer(reports=(tmp_path / "file" / "report.html",)), journal)
    printed = capsys.readouterr().out
    assert "compatible" in printed
    assert str(journal) in printed


def test_a_torn_journal_is_published(journal: Path, tmp_path: Path) -> None:
    """A journal that a crash cut off gives a valid report of what is known."""
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) * 2 // 3])
    code = publish(view(build(read(journal))), Printer(reports=(tmp_path / "report.json",)), journal)
    report = json.loads((tmp_path / "report.json").read_text())
    assert code == report["exit_code"] == 130
    assert report["releases"][0]["verdict"] == "unanswered"


def test_json_on_standard_output_leaves_it_to_the_json(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With JSON on stdout, text goes to stderr."""
    publish(view(build(read(journal))), Printer(as_json=True), journal)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["schema"] == "turngate.probe-report/2"
    assert "compatible" in captured.err
    assert "\x1b" not in captured.out + captured.err


def test_without_json_text_is_on_standard_output(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without JSON, text goes to stdout and nothing to stderr."""
    publish(view(build(read(journal))), Printer(), journal)
    captured = capsys.readouterr()
    assert "compatible" in captured.out
    assert captured.err == ""


def test_an_older_report_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Readers see either the old report or the new one, also through a link, and no partial file stays."""
    target, link = tmp_path / "report.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_reports(view(build(WHOLE)), Printer(reports=(link,)))
    assert json.loads(target.read_text())["turngate"] == "0.1.0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "report.json"]
    assert link.is_symlink()


def test_a_report_that_can_not_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails, as on a full disk, the old report stays and no partial file is left."""
    target = tmp_path / "report.json"
    target.write_text("old")

    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(MachineError, match="No space left"):
        write_reports(view(build(WHOLE)), Printer(reports=(target,)))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "old")]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A named pipe is written to, not replaced."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_reports(view(build(WHOLE)), Printer(reports=(pipe,)))
    reader.join(10)
    assert json.loads(got[0])["turngate"] == "0.1.0"


def test_secrets_and_registries_are_in_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys and registry addresses in engine output don't appear in any report."""
    key, host = "sk-" + "a1B2" * 6, "registry.example.com"
    output = {"bytes": 9, "excerpt": f"GET https://{host}/codex Authorization: Bearer {key}"}
    turn = j.turn(stdout=output, stderr=output, argv=["codex", f"--api-key={key}"])
    missed = j.clause("handle.present", "fail", detail=f"asked {host} with {key}")
    events = [j.started(), j.planned(note=f"from {host}"), turn, missed, j.failed(what="the registry is away")]
    path = j.written(tmp_path / "journal", *events)
    publish(view(build(read(path))), Printer(as_json=True), path)
    captured = capsys.readouterr()
    for shown in (captured.out, captured.err):
        assert "<package-registry>" in shown
        assert "<secret>" in shown
        assert key not in shown
        assert host not in shown


def test_text_that_the_terminal_can_not_encode_is_escaped(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that an ASCII terminal can't show is escaped, and doesn't crash the report."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    Printer().console.print("größer")
    assert raw.getvalue() == b"gr\\xf6\\xdfer\n"


BEGINNINGS = {
    ".json": "{",
    ".xml": "<?xml",
    ".sarif": "{",
    ".md": "## ",
    ".html": "<!DOCTYPE html>",
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_suffix_says_the_format(tmp_path: Path, suffix: str) -> None:
    """The file's suffix, in upper or lower case, selects the format; missing folders are created."""
    for report, name in ((samples.mixed(), f"new/report{suffix}"), (samples.hostile(), f"REPORT{suffix.upper()}")):
        write_reports(view(report), Printer(reports=(tmp_path / name,)))
        assert (tmp_path / name).read_text("utf-8").startswith(BEGINNINGS[suffix])


def test_json_holds_the_report_itself(tmp_path: Path) -> None:
    """A JSON file has the same content as the output of `--json`."""
    write_reports(view(samples.mixed()), Printer(reports=(tmp_path / "a.json",)))
    assert json.loads((tmp_path / "a.json").read_text()) == samples.plain(samples.mixed())


def test_a_file_that_can_not_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails, the old file stays and no partial file is left."""
    (tmp_path / "a.html").write_text("old")

    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(MachineError, match=r"a\.html.*No space left"):
        write_reports(view(samples.mixed()), Printer(reports=(tmp_path / "a.html",)))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.html", "old")]


def test_a_report_that_breaks_its_schema_is_written_nowhere(tmp_path: Path) -> None:
    """A report that breaks its schema is an internal error and is not written."""
    with pytest.raises(ValueError, match="seconds"):
        write_reports(view(structs.replace(samples.mixed(), seconds=-1.0)), Printer(reports=(tmp_path / "a.md",)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "of_report, of_release, of_clause",
    [
        ({}, {}, {}),
        ({"exit_code": -1}, {}, {}),
        ({"seconds": -1.0}, {}, {}),
        ({"turngate": 5}, {}, {}),
        ({"level": "none"}, {}, {}),
        ({}, {"release": ""}, {}),
        ({}, {"verdict": "fine"}, {}),
        ({}, {"turns": 1.5}, {}),
        ({}, {"durations": {"a": -1}}, {}),
        ({}, {}, {"id": "../x"}),
        ({}, {}, {"evidence": ("",)}),
        ({}, {}, {"evidence": (5,)}),
        ({}, {}, {"result": None}),
    ],
)
def test_a_report_is_refused_if_its_schema_refuses_it(of_report: Any, of_release: Any, of_clause: Any) -> None:
    """The quick check by structs gives the verdict of the JSON Schema that users get."""
    first, *others = samples.mixed().releases
    clause, *clauses = first.clauses
    release = structs.replace(first, clauses=(structs.replace(clause, **of_clause), *clauses), **of_release)
    report = structs.replace(samples.mixed(), releases=(release, *others), **of_report)
    wrong = first_error("probe-report", samples.plain(report))
    assert (wrong is None) == ((of_report, of_release, of_clause) == ({}, {}, {}))
    with pytest.raises(ValueError, match="the report breaks its schema") if wrong else nullcontext():
        checked(report)
