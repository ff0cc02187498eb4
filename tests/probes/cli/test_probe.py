"""The command `probe`; probing itself is tested with its module and end to end."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.probes import engines
from tests.probes.report import journals as j
from turngate import cli, engine_names
from turngate_probes.journal.journal import Journal
from turngate_probes.probe import Probe
from turngate_probes.probe_settings import ProbeSettings, journals
from turngate_probes.releases.npm import NO_NPM
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.source import TEST_ONE, not_pinned


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate cache for each test, outside of GitHub Actions."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.mark.parametrize(
    "args, message",
    [
        (("kodex",), "'kodex' is not an engine"),
        (("codex", "--clause", "no.such"), "no.such"),
        (("--level", "live"), "--level live needs a target"),
        (("--level", "live", "codex", "--clause", "handle.present"), "can't be combined with --clause or --keep"),
        (("codex", "--jobs", "0"), "'--jobs'"),
        (("codex", "--resume", "--level", "static"), "--resume can't be combined with --level or --clause"),
        (("codex", "--my-settings", "--resume"), "--my-settings can't be combined"),
        (
            ("codex", "--my-settings", "--level", "live"),
            "--my-settings can't be combined with --resume or --level live",
        ),
        (("codex", "--server", "python app.py"), "--server needs --level server"),
        (("codex", "--level", "server", "--server", "python 'app.py"), "No closing quotation"),
        (
            ("codex", "--level", "server", "--server", "serve", "--clause", "sticky.restart"),
            "no server is asked for sticky.restart",
        ),
        (("codex", "--resume", "--clause", "handle.present"), "--resume can't be combined with --level or --clause"),
    ],
)
def test_a_wrong_question_is_refused_before_anything_runs(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Invalid arguments end with exit code 2, and no file is written."""
    assert cli.run(["probe", *args]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("strict, code", [((), 0), (("--strict",), 1)])
def test_an_executable_is_probed_and_reported(strict: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """A probe writes its reports, keeps sandboxes on request, and exits by the verdict."""
    target = f"codex={engines.install(tmp_path / 'bin', 'poor-help')}"
    files = ("--report", str(tmp_path / "a.json"), "--report", str(tmp_path / "a.md"), "--keep", str(tmp_path / "kept"))
    assert cli.run(["probe", "--level", "static", target, *files, *strict]) == code
    (release,) = json.loads((tmp_path / "a.json").read_text())["releases"]
    assert release["verdict"] == "degraded"
    assert {clause["id"]: clause["result"] for clause in release["clauses"]}["help.surface"] == "fail"
    assert (tmp_path / "a.md").read_text().startswith("## ")
    assert list((tmp_path / "kept").glob("**/*.ndjson"))


def test_the_files_of_another_server_are_those_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """COMMAND runs in another directory, and its program is that on PATH, whatever a file here is called."""
    monkeypatch.chdir(tmp_path)
    Path("sh").touch()
    Path("app.sh").write_text("echo no port is free >&2; exit 1\n")
    target = f"codex={engines.install(tmp_path / 'bin')}"
    asked = ("--level", "server", "--server", "sh app.sh", "--clause", "server.bad-envelope", "--report", "a.json")
    assert cli.run(["probe", target, *asked]) == 1
    assert "no port is free" in Path("a.json").read_text()
    assert cli.run(["probe", "--last-failed", "--report", "b.json"]) == 1
    assert "no port is free" in Path("b.json").read_text(), "not the reference server"


def test_sandboxes_are_kept_in_a_folder_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with sandboxes in it is refused, so that no earlier probe is mixed with this one."""
    (tmp_path / "codex@0.169.0").mkdir()
    assert cli.run(["probe", "--level", "static", "codex", "--keep", str(tmp_path)]) == 2
    assert "holds the files of another run" in capsys.readouterr().err


@pytest.mark.long
def test_without_targets_only_what_is_installed_is_probed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without targets, only executables on PATH are probed, and nothing is installed; the others are named."""
    engines.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert cli.run(["probe", "--level", "static", "--report", str(tmp_path / "a.json")]) == 0
    report = json.loads((tmp_path / "a.json").read_text())
    assert {row["engine"] for row in report["releases"]} == {"codex"}
    assert not (tmp_path / "cache/engines").exists()
    skipped = {row["engine"]: row["why"] for row in report["skipped"]}
    assert set(skipped) == set(engine_names()) - {"codex"}
    assert skipped["claude"] == "claude is not on PATH"
    assert "not on PATH, so skipped: claude, copilot, gemini, " in capsys.readouterr().out


@pytest.mark.parametrize("level", ["hermetic", "server"])
def test_where_nothing_can_be_probed_the_command_fails(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any engine nothing runs, and exit code 2 comes with the names and the commands that help."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["probe", "--level", level]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"Error: no engine is on PATH: {', '.join(engine_names())}\n{TEST_ONE}\n")


@pytest.mark.parametrize("named", [(), ("codex", "gemini")])
def test_pinned_releases_are_installed_and_probed(
    named: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --pinned, what is on PATH doesn't count: the pins do, by default those of all but additional engines."""
    engines.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    args = ("probe", *named, "--pinned", "--level", "static", "--report", str(tmp_path / "a.json"))
    assert cli.run(args) == 2, "there is no npm"
    report = json.loads((tmp_path / "a.json").read_text())
    mine = named or [engine for engine in engine_names() if not not_pinned(engine)]
    assert {row["release"] for row in report["releases"]} == {f"{engine}@{pinned_version(engine)}" for engine in mine}
    assert {row["failed"]["what"] for row in report["releases"]} == {NO_NPM}


@pytest.mark.long
def test_what_failed_last_is_tested_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--last-failed` repeats the failed clauses of the newest probe, with its settings, until nothing fails."""
    assert cli.run(["probe", "--last-failed"]) == 2
    assert "no probe has run here yet" in capsys.readouterr().err
    executable = engines.install(tmp_path / "bin", "poor-help")
    assert cli.run(["probe", "--level", "static", "--my-settings", f"codex={executable}"]) == 0
    assert cli.run(["probe", "--last-failed", "--strict", "--report", str(tmp_path / "a.json")]) == 1
    report = json.loads((tmp_path / "a.json").read_text())
    # with the clause that it needs
    assert (report["level"], report["clauses"]) == ("static", ["help.surface", "version.readable"])
    assert report["releases"][0]["executable"] == str(executable)
    assert "settings" in report["releases"][0]
    engines.install(tmp_path / "bin", "good")
    assert cli.run(["probe", "--last-failed"]) == 0
    capsys.readouterr()
    assert cli.run(["probe", "--last-failed"]) == 2
    assert "nothing failed in the newest probe" in capsys.readouterr().err
    assert cli.run(["probe", "--last-failed", "codex"]) == 2


NOTHING = "nothing failed in the newest probe"


def repeated(folder: Path, *events: Any) -> list[ProbeSettings]:
    """Return with which settings `--last-failed` would repeat a probe with these events; none: it refuses."""
    asked = list[ProbeSettings]()
    j.written(folder / "cache/probes/20260101T000000.000000Z-1.ndjson", *events)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Probe, "run", lambda probe, *_: asked.append(probe.settings))
        cli.run(["probe", "--last-failed"])
    for path in journals():
        path.unlink()
    return asked


def test_what_was_asked_of_a_server_or_of_resuming_is_asked_again(tmp_path: Path) -> None:
    """The server and the user's settings are those of the failed probe, not turngate's own."""
    fails, server = j.clause("server.cancel", "fail"), ("python", "/home/me/app.py")
    begun = j.started(level="server", server=server, clauses=["server.cancel"])
    (settings,) = repeated(tmp_path, begun, j.planned(), fails, j.finished(verdict=None), j.ended())
    assert (settings.server, settings.level, settings.clauses) == (server, "server", ("server.cancel",))
    begun = j.started(resume=True, clauses=["resume.accepted"])
    fails = j.clause("resume.accepted", "fail")
    (settings,) = repeated(tmp_path, begun, j.planned(settings=["model"]), fails, j.finished(), j.ended())
    assert (settings.resume, settings.my_settings, settings.clauses) == (True, False, ())


def test_what_could_not_be_tested_is_tested_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupt and a machine that lacks something leave clauses open; a contract that excludes one does not."""
    passed = [j.clause(clause) for clause in ("handle.present", "handle.place")]
    begun = j.started(clauses=["handle.present", "handle.place", "resume.accepted"])
    (settings,) = repeated(tmp_path, begun, j.planned(), *passed, j.ended(interrupted=True))
    assert settings.clauses == ("resume.accepted",)
    for reason, again in (("machine", ["help.surface"]), ("contract", [])):
        open_one = j.clause("help.surface", "not_run", reason=reason, evidence=[])
        events = (j.started(clauses=["help.surface"]), j.planned(), open_one, j.finished(verdict=None), j.ended())
        assert [clause for one in repeated(tmp_path, *events) for clause in one.clauses] == again
    assert NOTHING in capsys.readouterr().err
    failed = repeated(tmp_path, j.started(clauses=["help.surface"]), j.planned(), j.failed(), j.ended())
    assert [one.clauses for one in failed] == [("help.surface",)], "not every clause, which nobody asked for"


def test_a_probe_that_runs_is_not_the_newest(tmp_path: Path) -> None:
    """What it has tested so far says nothing, until it ends or is killed."""
    newer = tmp_path / "cache/probes/20260102T000000.000000Z-2.ndjson"
    begun, fails = j.started(clauses=["help.surface"]), j.clause("help.surface", "fail")
    events = (begun, j.planned(), fails, j.finished(verdict=None), j.ended())
    with closing(Journal(newer)) as running:
        for event in (j.started(), j.planned("gemini@0.61.0")):
            running.add(event)
        (settings,) = repeated(tmp_path, *events)
    assert settings.clauses == ("help.surface",)
    j.written(newer, j.started(clauses=["version.readable"]), j.planned("gemini@0.61.0"))
    (settings,) = repeated(tmp_path, *events)
    assert settings.clauses == ("version.readable",)
