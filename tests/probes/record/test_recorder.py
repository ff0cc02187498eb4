"""Recording on the fake engine: what is written, and that it is the same each time."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, cast

import pytest
from msgspec.structs import replace

from tests.probes import engines
from turngate import EngineContract
from turngate.contract import load
from turngate.errors import MachineError, UsageError
from turngate.model import Ended
from turngate.process.supplied_files import supplied_folder
from turngate_probes.harness.cases import RECORDED, Case
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.harness.observations import Observation, Turn
from turngate_probes.harness.runner import CaseRunner, Observer
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.record import recorder, replay
from turngate_probes.record.recorder import RecordingSummary, places, record
from turngate_probes.releases.source import Release

CODEX = load.contract("codex").at("0.169.0")
ENDLESS = {"backend-hang", "backend-500", "backend-away", "interrupted", "killed"}
QUICK = tuple(case for case in RECORDED if case.name not in ENDLESS)


@pytest.fixture(name="no_waiting", autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the wait for a later minute."""
    monkeypatch.setattr(EngineDriver, "until_later_minute", lambda *_: None)


def recorded(
    folder: Path, cases: Sequence[Case], *faults: str, interrupt: Interrupt | None = None, note: str = ""
) -> RecordingSummary:
    """Record cases of the fake engine into `folder/fixtures`."""
    release = Release("codex", "0.169.0", engines.install(folder / "engine", *faults), "path", CODEX, "")
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
    assert len({name.partition("/")[0] for name in first}) == sum(case.turns(CODEX) for case in QUICK) + 1 + len(
        CODEX.help.pages
    )


def test_the_folder_of_supplied_files_is_kept_as_the_contract_writes_it(tmp_path: Path) -> None:
    """So that what reads a recording recognises the contract's own file."""
    gemini = load.contract("gemini").at("0.61.0")
    with sandbox(gemini.hermetic, tmp_path, "main", keep=False) as box:
        known = places(Release("gemini", "0.61.0", tmp_path / "gemini", "path", gemini, ""), box)
    assert known[str(supplied_folder(gemini.guards.files))] == "{files}"


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
    observed = replay.replay(CODEX)
    first, again, large = (observed.turn(name) for name in ("main/first", "main/again", "large-prompt/first"))
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


def test_what_no_command_printed_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form of the stored session is noted in a probe, and a recording leaves it out."""
    monkeypatch.setattr("turngate_probes.harness.driver.session_form", lambda *_: ("record",))
    done = recorded(tmp_path, named("main"))
    assert [path for path in done.folder.iterdir() if path.name.endswith("-session")] == []
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "fixtures"))
    assert len(replay.replay(CODEX).turns) == done.written


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
        "final-first",
        "main-again",
        "main-elsewhere",
        "main-first",
        "main-same",
        "main-same-again",
        "main-third",
    ]
    assert files(folder / "main-first") == before | {"mark": b""}


def test_an_interrupted_recording_changes_nothing(tmp_path: Path) -> None:
    """An interrupted recording leaves the earlier recording unchanged, and no partial files."""
    interrupt = Interrupt()
    stopping = replace(named("final")[0], play=lambda _: interrupt.set())
    with pytest.raises(MachineError, match="interrupted"):
        recorded(tmp_path, [stopping], interrupt=interrupt)
    assert not (tmp_path / "fixtures").exists()
    assert list((tmp_path / "sandboxes").iterdir()) == []


def test_an_engine_that_does_not_start_keeps_its_earlier_recordings(tmp_path: Path) -> None:
    """Recording a release that no longer starts is an error that says why, and removes nothing."""
    kept = recorded(tmp_path, named("final")).folder
    before = files(kept)

    def refused(_: object) -> NoReturn:
        raise CaseStoppedError("it needs another Node.js")

    with pytest.raises(MachineError, match=r"it needs another Node\.js"):
        recorded(tmp_path, [replace(named("final")[0], play=refused)])
    assert files(kept) == before


def test_what_has_no_executable_cannot_be_recorded(tmp_path: Path) -> None:
    """A release without an executable can't be recorded."""
    release = Release("codex", "0.169.0", None, "recordings", CODEX, "")
    stage = CaseRunner.of(tmp_path, 1, Interrupt())
    with pytest.raises(UsageError, match="can't be recorded"):
        record(release, [], stage, tmp_path, Interrupt())


class Late:
    """Passes on turns to an observer as ones that reached their deadline."""

    def __init__(self, observer: Observer) -> None:
        self.saw_in_time, self.ended = observer.saw, observer.ended

    def saw(self, item: Observation, box: Sandbox) -> None:
        """Pass on a turn as a late one, and anything else as it is."""
        self.saw_in_time(replace(item, ended=Ended.TIMEOUT) if isinstance(item, Turn) else item, box)


class SlowRunner:
    """A runner whose turns reach their deadline in the given number of runs of a case."""

    def __init__(self, runner: CaseRunner, slow_runs: int) -> None:
        self.sandboxes, self.runs = runner.sandboxes, list[tuple[str, ...]]()
        self._runner, self._slow = runner, slow_runs

    def play(self, contract: EngineContract, executable: Path, cases: Sequence[Case], observer: Observer) -> None:
        """Run the cases, and pass on their turns as late ones."""
        self.runs.append(tuple(case.name for case in cases))
        late = len(self.runs) <= self._slow
        self._runner.play(contract, executable, cases, Late(observer) if late else observer)


def slowly(folder: Path, slow_runs: int) -> tuple[RecordingSummary, SlowRunner]:
    """Record a case whose turns are late in the first runs."""
    release = Release("codex", "0.169.0", engines.install(folder / "engine"), "path", CODEX, "")
    runner = SlowRunner(CaseRunner.of(folder / "sandboxes", 3, Interrupt()), slow_runs)
    cases = named("imitation", "final")
    return record(release, cases, cast("CaseRunner", runner), folder / "fixtures", Interrupt()), runner


@pytest.mark.long
def test_a_case_that_was_stopped_by_load_is_recorded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases with late turns are repeated one by one; only the second recording counts, and the summary names them."""
    monkeypatch.setattr(recorder, "busy", lambda: True)
    done, runner = slowly(tmp_path, 1)
    (first, *again) = runner.runs
    assert sorted(again) == sorted((name,) for name in first)
    assert sorted(done.repeated) == sorted(first)
    recordings = [path.read_text() for path in done.folder.glob("*/recording.yaml")]
    assert len(recordings) == done.written == 2
    assert not any("timeout" in text for text in recordings)


@pytest.mark.long
@pytest.mark.parametrize("is_busy", [True, False])
def test_what_is_late_twice_is_refused_on_a_busy_machine(
    *, is_busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine nothing is changed, and the error says why. On an idle one the engine itself hangs."""
    monkeypatch.setattr(recorder, "busy", lambda: is_busy)
    if is_busy:
        with pytest.raises(MachineError, match="reached their deadline twice, and the machine is busy"):
            slowly(tmp_path, 3)
        assert not (tmp_path / "fixtures").exists()
    else:
        done, _ = slowly(tmp_path, 3)
        assert "ended: timeout" in (done.folder / "imitation-first/recording.yaml").read_text()


@pytest.mark.parametrize("load_average, is_busy", [(3.0, True), (1.0, False)])
def test_a_machine_is_busy_above_its_cores(
    *, load_average: float, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine is busy if its load exceeds the number of cores."""
    monkeypatch.setattr("os.getloadavg", lambda: (load_average, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert recorder.busy() is is_busy
