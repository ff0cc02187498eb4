"""Reports are read from files, which may be untrusted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate import cli
from turngate.contract.clauses import Result
from turngate.contract.load import catalogue
from turngate.errors import UsageError
from turngate_probes.report import FORMATS
from turngate_probes.report.load import joined, load_report
from turngate_probes.report.publish import json_text

Change = Callable[[dict[str, Any]], Any]


def kept(folder: Path, report: Any) -> Path:
    """Write a report as JSON."""
    path = folder / "report.json"
    path.write_text(json_text(report))
    return path


def test_a_report_is_rendered_again_without_running_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A saved report is rendered as text and into every requested file, with the exit code of the probe."""
    monkeypatch.setenv("PATH", "")
    source = kept(tmp_path, samples.mixed())
    page, xml = tmp_path / "page.html", tmp_path / "new" / "junit.xml"
    assert cli.run(["report", str(source), "--report", str(page), "--report", str(xml)]) == 1
    assert "the resume was refused" in capsys.readouterr().out
    assert "the resume was refused" in page.read_text()
    assert "the resume was refused" in xml.read_text()


def test_a_report_without_a_clause_set_is_of_the_first_one(tmp_path: Path) -> None:
    """An earlier turngate wrote it, whose verdicts are no claims about newer clauses."""
    report = samples.plain(samples.of(samples.whole()))
    del report["releases"][0]["clause_set"]
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert load_report(tmp_path / "report.json").releases[0].clause_set == "2026-11"


def test_a_clause_that_no_longer_exists_is_still_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal of an earlier turngate keeps its verdict, and each format shows the result that led to it."""
    gone = {"id": "server.warm-wait", "level": "server", "severity": "degraded", "detail": "turn 2 went elsewhere"}
    events = [
        j.started(level="server", clause_set="2026-11"),
        j.planned(),
        j.turn(),
        *(j.clause(clause.id) for clause in catalogue().of_set("2026-11").at_level("static", "hermetic", "server")),
        j.clause("server.waits", "fail", **gone),
        j.finished(verdict="degraded"),
        j.ended(),
    ]
    source = j.written(tmp_path / "probe.ndjson", *events)
    (release,) = load_report(source).releases
    assert (release.verdict, release.clauses[-1].id, release.clauses[-1].result) == (
        "degraded",
        "server.warm-wait",
        Result.FAIL,
    )
    files = [tmp_path / f"report{suffix}" for suffix in FORMATS]
    assert cli.run(["report", str(source), *(f"--report={file}" for file in files)]) == 0
    for text in (capsys.readouterr().out, *(file.read_text() for file in files)):
        assert "warm-wait" in text


def test_a_journal_is_a_source_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal can be read as a report, even one that a crash cut off."""
    path = j.written(tmp_path / "journal.ndjson", j.started(), *samples.whole(), j.ended())
    assert cli.run(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["releases"][0]["verdict"] == "compatible"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert load_report(path).exit_code == 130


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '"x"',
        "NaN",
        "[" * 100_000,
        '{"schema": "turngate.probe-report/2"}',
        "\x00",
        "\ud800",
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is no report is rejected with exit code 2 and a hint, without a traceback, and nothing is written."""
    source, page = tmp_path / "report.json", tmp_path / "page.html"
    source.write_text(text, "utf-8", "surrogatepass")
    assert cli.run(["report", str(source), "--report", str(page)]) == 2
    said = capsys.readouterr().err
    assert "is not a valid report" in said
    assert "Traceback" not in said
    assert not page.exists()


def test_the_report_of_a_newer_turngate_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says so and what to do, and the file stays as it is."""
    report = samples.plain(samples.mixed()) | {"schema": "turngate.probe-report/3", "surprise": 1}
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    assert cli.run(["report", str(path)]) == 2
    said = capsys.readouterr().err
    assert "a newer turngate wrote it: its format is turngate.probe-report/3" in said
    assert "render it with that turngate, or run the probe again" in said
    assert json.loads(path.read_text()) == report


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda r: r.update(surprise=1), "surprise"),
        (lambda r: r.update(seconds=float("nan")), "NaN"),
        (lambda r: r.update(exit_code=0), "its exit code is 0"),
        (lambda r: r["releases"][0].update(verdict="compatible"), "although resume.accepted failed"),
        (lambda r: r.update(started_at="yesterday"), "yesterday"),
        (lambda r: r.update(started_at="2026-11-21T10:00:00"), "time zone"),
        (lambda r: r["releases"].append(r["releases"][0]), "occurs in it twice"),
        (lambda r: r["releases"][0]["clauses"][0].update(id="../x"), "matching regex"),
        (lambda r: r["releases"][0].pop("profile"), "profile"),
    ],
)
def test_what_a_probe_would_not_say_is_refused(tmp_path: Path, change: Change, why: str) -> None:
    """A report must match its schema and be consistent."""
    report = samples.plain(samples.mixed())
    change(report)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    with pytest.raises(UsageError, match="is not a valid report: ") as refused:
        load_report(path)
    assert why in refused.value.what


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.pop("level"),
        lambda e: e.update(level="deep"),
        lambda e: e.update(at="never"),
        lambda e: e.update(machine=1),
        lambda e: e.update(clauses=3),
    ],
)
def test_a_journal_of_nonsense_is_refused(tmp_path: Path, change: Change) -> None:
    """A journal with invalid events is rejected."""
    events = msgspec.to_builtins([j.started(), *samples.whole()])
    change(events[0])
    path = tmp_path / "journal.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    with pytest.raises(UsageError, match=r"is not a valid report|is not an event"):
        load_report(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A very large file, such as a disk image, is rejected without reading it."""
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    with pytest.raises(UsageError, match="too large"):
        load_report(path)


def test_several_are_joined(tmp_path: Path) -> None:
    """Joined reports have all releases, the total time, the earliest start, and one exit code."""
    good, bad = samples.of(samples.whole(release="gemini@1.0.0")), samples.mixed()
    good = structs.replace(good, started_at="2026-11-21T11:30:00.000+02:00")
    whole = joined(
        [bad, samples.of(samples.whole(release="qwen@1.0.0")), structs.replace(good, releases=())], [tmp_path] * 3
    )
    assert [release.release for release in whole.releases][-2:] == ["opencode@1.0.0", "qwen@1.0.0"]
    assert (whole.seconds, whole.exit_code) == (36.0, 1)
    assert whole.started_at == good.started_at
    assert load_report(kept(tmp_path, whole)) == whole


def test_what_does_not_fit_together_is_not_joined() -> None:
    """Reports that share a release, or have different levels or clauses, can't be joined."""
    one, names = samples.mixed(), [Path("a"), Path("b")]
    with pytest.raises(UsageError, match=r"b contains codex@0\.169\.0 again"):
        joined([one, one], names)
    other: dict[str, Any]
    for other in ({"level": "static"}, {"clauses": ("handle.present",)}):
        with pytest.raises(UsageError, match="different levels or clauses"):
            joined([one, structs.replace(samples.of(), **other)], names)
