"""Recording on the fake engine: what is written, and that it is the same each time."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.probes import engines
from turngate.contract import load
from turngate.errors import EnvironmentFailed
from turngate.process import Ended
from turngate_probes.harness.cases import RECORDED, Case
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.record import replay
from turngate_probes.record.recorder import RecordingSummary, record
from turngate_probes.releases.source import Release

CODEX = load.contract("codex").at("0.169.0")
ENDLESS = {"backend-hang", "backend-500", "backend-away", "interrupted", "killed"}
QUICK = tuple(case for case in RECORDED if case.name not in ENDLESS)


@pytest.fixture(name="no_waiting", autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the wait for a later minute."""
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda *_: None)


def recorded(
    folder: Path, cases: Sequence[Case], *lies: str, interrupt: Interrupt | None = None, note: str = ""
) -> RecordingSummary:
    """Record cases of the fake engine into `folder/fixtures`."""
    release = Release("codex", "0.169.0", engines.install(folder / "engine", *lies), "path", CODEX, "")
    interrupt = interrupt or Interrupt()
    stage = CaseRunner.of(folder / "sandboxes", 3, interrupt)
    return record(release, cases, stage, folder / "fixtures", interrupt, note)


def named(*names: str) -> list[Case]:
    """Return the cases of these names."""
    return [case for case in RECORDED if case.name in names]


def files(folder: Path) -> dict[str, bytes]:
    """Read all files but the provenance."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "provenance.yaml")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.long
def test_recording_again_changes_nothing_but_the_provenance(tmp_path: Path) -> None:
    """Two recordings of a release, in different folders and on different ports, are byte-identical."""
    first, second = (files(recorded(tmp_path / name, QUICK).folder) for name in ("one", "two"))
    assert first == second
    assert len({name.partition("/")[0] for name in first}) == sum(case.steps for case in QUICK) + 1 + len(
        CODEX.help.pages
    )


@pytest.mark.long
def test_nothing_of_this_machine_is_kept(tmp_path: Path) -> None:
    """A recording contains no paths, home directory or ports of this machine."""
    done = recorded(tmp_path, named("main", "imitation"))
    text = b"\n".join(files(done.folder).values()).decode()
    assert str(tmp_path) not in text
    assert f"{Path.home()}/" not in text
    assert "127.0.0.1:" not in text.replace("127.0.0.1:1/", "")


@pytest.mark.long
def test_a_recording_replays_as_the_turn_that_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording that is read back has the session, resume, requests and nonces, so clauses can be checked with it."""
    recorded(tmp_path, named("main", "large-prompt"))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "fixtures"))
    seen = replay.replay(CODEX)
    first, again, large = (seen.turn(name) for name in ("main/first", "main/again", "large-prompt/first"))
    assert first.session == again.session == again.resumed
    assert {first.nonce, again.nonce} <= set(again.watched[0].nonces)
    assert (first.turn_index, again.turn_index, first.stdin) == (1, 2, "prompt")
    assert "CODEX_HOME" in first.env
    assert len(large.prompt) > 200_000
    assert large.watched[0].user_texts[-1] == large.prompt


def test_pages_and_a_note_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of plain commands is recorded unchanged, and the provenance holds the caller's note."""
    done = recorded(tmp_path, named("static"), note="from a build of our own")
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "fixtures"))
    page = replay.replay(CODEX).page("static/version")
    assert (page.argv, page.stdout, page.exit_code) == (("codex", "--version"), b"codex-cli 0.169.0\n", 0)
    notes = [load.parse(path.read_text(), path.name).data["note"] for path in done.folder.rglob("provenance.yaml")]
    assert notes == ["from a build of our own"] * done.written


def test_a_long_prompt_takes_little_room(tmp_path: Path) -> None:
    """A prompt of 200 KB is stored as a short recipe."""
    done = recorded(tmp_path, named("large-prompt"))
    assert sum(map(len, files(done.folder).values())) < 8000


def test_a_case_that_ends_early_keeps_the_turns_before_and_says_why(tmp_path: Path) -> None:
    """Without a session id there is no resume, but the first turn is recorded, and the reason is reported."""
    done = recorded(tmp_path, named("main"), "renames-id")
    assert [path.name for path in done.folder.iterdir()] == ["main-first"]
    assert "no session id" in done.early["main"]


@pytest.mark.parametrize("name, code", [("interrupted", -2), ("killed", -9)])
def test_signals_come_in_the_middle_of_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    """A signal ends the engine after it has sent its model request, long before the deadline."""
    recorded(tmp_path, named(name))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "fixtures"))
    turn = replay.replay(CODEX).turn(f"{name}/first")
    assert (turn.ended, turn.exit_code) == (Ended.EXIT, code)
    assert [request.reply for request in turn.watched] == ["hang"]
    assert turn.signal == {-2: "SIGINT", -9: "SIGKILL"}[code]


@pytest.mark.long
def test_cases_that_are_not_asked_for_stay(tmp_path: Path) -> None:
    """Recording one case again replaces only the turns of that case, and removes outdated ones."""
    folder = recorded(tmp_path, named("main", "final")).folder
    before = files(folder / "main-first")
    (folder / "final-gone").mkdir()
    (folder / "main-first" / "mark").touch()
    recorded(tmp_path, named("final"))
    assert sorted(path.name for path in folder.iterdir()) == [
        "final-first", "main-again", "main-elsewhere", "main-first", "main-third",
    ]  # fmt: skip
    assert files(folder / "main-first") == before | {"mark": b""}


def test_an_interrupted_recording_changes_nothing(tmp_path: Path) -> None:
    """An interrupted recording leaves the earlier recording unchanged, and no partial files."""
    interrupt = Interrupt()
    stopping = replace(named("final")[0], play=lambda _: interrupt.set())
    with pytest.raises(EnvironmentFailed, match="interrupted"):
        recorded(tmp_path, [stopping], interrupt=interrupt)
    assert not (tmp_path / "fixtures").exists()
    assert list((tmp_path / "sandboxes").iterdir()) == []


def test_what_has_no_executable_cannot_be_recorded(tmp_path: Path) -> None:
    """A release without an executable can't be recorded."""
    release = Release("codex", "0.169.0", None, "recordings", CODEX, "")
    stage = CaseRunner.of(tmp_path, 1, Interrupt())
    with pytest.raises(EnvironmentFailed, match="can't be recorded"):
        record(release, [], stage, tmp_path, Interrupt())
