"""What is known of the engines on PATH and of those that a project pins."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.contracts.test_history import FRESH, PASS, known, release
from tests.fakes.version_manager import MANAGERS, VersionManager
from tests.tables import each
from turngate import Stop, history
from turngate.contract.clauses import FIRST_SET, NEWEST_SET, Result
from turngate.contract.verdict import Verdict
from turngate.errors import NotFoundError
from turngate.history import History, KnownResult
from turngate.process.executable import MARKER
from turngate_probes import doctor
from turngate_probes.doctor import DoctorReport, FailedClause, FoundAt, FoundRelease, Knowledge, NearRelease
from turngate_probes.releases import project_pins

PACKAGE, MALFORMED = "@openai/codex", "resume.malformed-handle"
Install = Callable[..., Path]


@pytest.fixture(name="place", autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty project, with a home and a cache beside it, and one empty folder on PATH."""
    for name in ("project", "home", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    return tmp_path


@pytest.fixture(name="histories", autouse=True)
def _histories(monkeypatch: pytest.MonkeyPatch) -> dict[str, History]:
    """Only codex has a history."""
    histories = {"codex": known(release("0.147.0"), release("0.169.0", profile="resumable"))}

    def load(engine: str) -> History:
        if engine in histories:
            return histories[engine]
        raise NotFoundError(f"turngate has no history of {engine}")

    monkeypatch.setattr(history, "load", load)
    return histories


@pytest.fixture(name="install")
def _install(place: Path) -> Install:
    """Install executables that leave a line in `ran` each time they run."""

    def install(script: str = "echo codex-cli 0.169.0", at: str = "bin/codex", shebang: str = "/bin/sh") -> Path:
        file = place / at
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!{shebang}\necho >>{place}/ran\n{script}\n")
        file.chmod(0o755)
        return file

    return install


def runs(place: Path) -> int:
    """Count how often executables ran."""
    return (place / "ran").read_text().count("\n") if (place / "ran").exists() else 0


def pin(version: str, package: str = PACKAGE) -> None:
    """Pin a release in the project."""
    Path("package.json").write_text(f'{{"dependencies": {{"{package}": "{version}"}}}}')


def examined() -> DoctorReport:
    """Examine the working directory."""
    return doctor.examine(Path.cwd(), Stop())


def only() -> FoundRelease:
    """Return the only release that is found."""
    (found,) = examined().releases
    return found


def test_a_release_on_path_and_in_a_file_is_one_and_another_pin_is_another(install: Install) -> None:
    """Places with the same version belong together, the one on PATH first."""
    codex = install()
    pin("0.169.0")
    Path("Dockerfile").write_text(f"RUN npm install -g {PACKAGE}@0.147.0")
    first, second = examined().releases
    assert first.found == (FoundAt("path", str(codex)), FoundAt("pin", "package.json:1"))
    assert (first.name, first.verdict, first.profile) == ("codex@0.169.0", Verdict.COMPATIBLE, "resumable")
    assert (second.name, second.found) == ("codex@0.147.0", (FoundAt("pin", "Dockerfile:1"),))
    assert (second.newer_safe, first.newer_safe) == ("0.169.0", None)


@each(
    "verdicts, code",
    [
        ([Verdict.COMPATIBLE], 0),
        ([Verdict.DEGRADED], 1),
        ([Verdict.BROKEN, None], 1),
        ([Verdict.COMPATIBLE, None], 2),
        ([None, Verdict.DEGRADED], 1),
        ([], 2),
    ],
)
def test_the_worst_release_decides_the_exit_code(verdicts: list[Verdict | None], code: int) -> None:
    """A broken or degraded release exits with 1, else one without a verdict, or none at all, with 2."""
    assert doctor.exit_code(verdicts) == code


def test_a_failure_is_told_with_what_was_observed(histories: dict[str, History]) -> None:
    """A broken release names the clauses that fail, and the newest release that is safe."""
    failing = {"resume.accepted": KnownResult(Result.FAIL, (), "exit code 1"), "handle.present": PASS}
    more = {"clauses": failing, "why": "it can't resume", "measured": "2026-11-24", "clause_set": NEWEST_SET}
    broken = release("0.150.0", Verdict.BROKEN, **more)
    histories["codex"] = known(broken, release("0.169.0"))
    pin("0.150.0")
    found = only()
    assert (found.verdict, found.detail, found.measured) == (Verdict.BROKEN, "it can't resume", "2026-11-24")
    assert (found.failures, found.newer_safe) == ((FailedClause("resume.accepted", "exit code 1"),), "0.169.0")
    assert found.command is None
    assert examined().exit_code == 1


@pytest.mark.parametrize(
    "clauses, acts",
    [
        ({MALFORMED: FRESH}, True),
        ({MALFORMED: PASS}, False),
        ({MALFORMED: KnownResult(Result.NOT_RUN)}, True),
        ({}, True),
    ],
)
def test_a_deviation_that_a_test_showed_to_be_gone_needs_no_action(
    histories: dict[str, History], clauses: Any, *, acts: bool
) -> None:
    """What a contract declares counts, unless the clause was tested and the symptom did not occur."""
    histories["codex"] = known(release("0.169.0", clauses=clauses))
    pin("0.169.0")
    actions = {action.clause: action for action in only().actions}
    assert (MALFORMED in actions) is acts
    if acts:
        assert actions[MALFORMED].symptoms == ("fresh-session",)
        assert actions[MALFORMED].action.startswith("resume only session ids")


def test_a_deviation_that_occurs_only_sometimes_stays(histories: dict[str, History]) -> None:
    """A test without it proves nothing."""
    passed = {"process.clean-exit": PASS}
    histories["copilot"] = structs.replace(known(release("1.0.71", clauses=passed)), engine="copilot")
    pin("1.0.71", "@github/copilot")
    assert "process.clean-exit" in {action.clause for action in only().actions}


def test_a_verdict_by_older_clauses_is_said_to_be_one(histories: dict[str, History]) -> None:
    """It is no verdict by the newest clauses, so the command that gets one is offered; so it is with other releases."""
    histories["codex"] = known(release("0.147.0"), release("0.169.0", clause_set=NEWEST_SET), published=("0.150.0",))
    pin("0.147.0")
    found = only()
    assert (found.verdict, found.clause_set) == (Verdict.COMPATIBLE, FIRST_SET)
    assert found.command == "turngate probe codex@0.147.0"
    assert (found.newer_safe, found.newer_safe_clause_set) == ("0.169.0", NEWEST_SET)
    pin("0.150.0")
    assert [near.clause_set for near in only().nearest] == [FIRST_SET, NEWEST_SET]


def test_a_version_that_nobody_published_is_no_release(install: Install) -> None:
    """A pin of it is a mistake, so nothing is advised; a build of one's own can be tested."""
    pin("0.150.0")
    found = only()
    assert (found.knowledge, found.detail) == (Knowledge.NO_SUCH_RELEASE, "nearest: 0.147.0, 0.169.0")
    assert (found.command, found.actions, found.nearest) == (None, (), ())
    install("echo codex-cli 0.150.0")
    assert only().command == "turngate probe codex"


def test_an_untested_release_has_neighbours_and_a_command(install: Install, histories: dict[str, History]) -> None:
    """The nearest tested releases are named; the command tests what is on PATH, or what is pinned."""
    histories["codex"] = structs.replace(histories["codex"], published={"0.150.0": None})
    pin("0.150.0")
    found = only()
    assert (found.knowledge, found.verdict, found.newer_safe) == (Knowledge.UNTESTED, None, "0.169.0")
    assert [near.version for near in found.nearest] == ["0.147.0", "0.169.0"]
    assert found.command == "turngate probe codex@0.150.0"
    assert found.actions
    install("echo codex-cli 0.170.0")
    newest, _ = examined().releases
    assert newest.knowledge == Knowledge.UNKNOWN
    assert newest.nearest == (NearRelease("0.169.0", Verdict.COMPATIBLE, "2026-11"),)
    assert newest.command == "turngate probe codex"


def test_settings_that_matter_are_named_where_the_engine_is_installed(place: Path, install: Install) -> None:
    """The names of listed settings are told, neither values nor others, and not for a release that a file pins."""
    (place / "home" / ".codex").mkdir()
    (place / "home" / ".codex" / "config.toml").write_text('model = "mine"\n[history]\npersistence = "none"\n')
    pin("0.147.0")
    assert only().settings == ()
    install()
    assert [found.settings for found in examined().releases] == [("{CODEX_HOME}/config.toml: history.persistence",), ()]


def test_a_release_that_could_not_be_tested_says_why(histories: dict[str, History]) -> None:
    """A known release without a verdict is no verdict."""
    histories["codex"] = known(release("0.150.0", Verdict.UNANSWERED, why="it can't be installed"), release("0.169.0"))
    pin("0.150.0")
    found = only()
    assert (found.knowledge, found.verdict, found.detail) == (Knowledge.UNTESTED, None, "it can't be installed")
    assert found.command == "turngate probe codex@0.150.0"


def test_an_engine_without_a_history_says_so() -> None:
    """Without a history there is no verdict, but the contract still says what to do."""
    pin("0.61.0", "@google/gemini-cli")
    found = only()
    assert (found.engine, found.knowledge, found.command) == (
        "gemini",
        Knowledge.NO_HISTORY,
        "turngate probe gemini@0.61.0",
    )
    assert found.actions


def test_a_version_that_is_none_has_no_neighbours(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executable may print what is no version number."""
    install("echo codex-cli 0.169.0.1")
    monkeypatch.setattr(doctor, "version_in", lambda *_: ("0.169.0.1", ""))
    found = only()
    assert (found.knowledge, found.nearest, found.newer_safe, found.actions) == (Knowledge.UNKNOWN, (), None, ())


@pytest.mark.parametrize("entry", ["PROJECT/tools", "tools", ".", "", "OUTSIDE"])
def test_a_program_of_the_project_is_named_but_not_run(
    place: Path, install: Install, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    """Neither a folder of the project, nor a relative or an empty one, nor a link into the project is trusted."""
    inside = install(at="project/codex" if entry in (".", "") else "project/tools/codex")
    (place / "outside").mkdir()
    (place / "outside/codex").symlink_to(inside)
    folder = entry.replace("PROJECT", f"{place}/project").replace("OUTSIDE", f"{place}/outside")
    monkeypatch.setenv("PATH", f"{folder}:{place}/bin")
    found = only()
    assert (found.version, found.knowledge, examined().exit_code) == (None, Knowledge.NOT_RUN, 2)
    (at,) = found.found
    assert Path(at.place).samefile(inside)
    assert found.detail
    assert runs(place) == 0


def test_a_relative_folder_outside_of_the_project_is_not_trusted(
    place: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a relative folder on PATH holds depends on where one works."""
    install()
    monkeypatch.setenv("PATH", "../bin")
    found = only()
    assert (found.knowledge, "'../bin' on PATH is relative" in found.detail) == (Knowledge.NOT_RUN, True)
    assert runs(place) == 0


def test_a_repository_is_one_project(place: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a repository, all of it belongs to the project, also if it is the home directory."""
    install(at="project/node_modules/.bin/codex")
    (place / "project/.git").mkdir()
    (place / "project/deep").mkdir()
    monkeypatch.chdir(place / "project/deep")
    monkeypatch.setenv("PATH", f"{place}/project/node_modules/.bin")
    monkeypatch.setenv("HOME", f"{place}/project")
    assert only().knowledge is Knowledge.NOT_RUN
    assert examined().not_run_from == str(place / "project")
    assert runs(place) == 0


def test_the_home_directory_is_no_project(place: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs in the home directory are the user's own, if one works there or above it."""
    install(at="home/.local/bin/codex")
    monkeypatch.setenv("PATH", f"{place}/home/.local/bin")
    for folder in (place / "home", place):
        monkeypatch.chdir(folder)
        assert (only().version, examined().not_run_from) == ("0.169.0", None)


def test_without_a_home_each_folder_but_the_root_is_a_project(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows the home, no folder passes for it."""
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert doctor.project_of(place) == place
    assert doctor.project_of(Path("/")) is None


def test_an_engine_finds_no_interpreter_of_the_project(
    place: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PATH of what is run has nothing of the project, and nothing relative."""
    install(at="project/node", shebang="/bin/sh")
    (place / "bin/codex").write_text("#!/usr/bin/env node\n")
    (place / "bin/codex").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{place}/project:{place}/bin")
    assert (only().version, only().knowledge) == (None, Knowledge.NO_VERSION)
    assert runs(place) == 0


def test_a_simulated_engine_says_nothing(place: Path, install: Install) -> None:
    """It is not run, and passes for no release."""
    install(MARKER.decode())
    assert (only().knowledge, "simulated engine" in only().detail) == (Knowledge.NOT_RUN, True)
    assert runs(place) == 0


def test_an_executable_is_asked_each_time(place: Path, install: Install) -> None:
    """A wrapper may start another release although its file stays the same."""
    install(f"read version <{place}/version; echo codex-cli $version")
    for version in ("0.169.0", "0.147.0"):
        (place / "version").write_text(f"{version}\n")
        assert only().version == version
    assert runs(place) == 2


def test_the_package_beside_an_executable_says_its_release(place: Path, install: Install) -> None:
    """It isn't run, however long its `--version` would take."""
    install(at=f"lib/node_modules/{PACKAGE}/bin/codex.js")
    (place / f"lib/node_modules/{PACKAGE}/package.json").write_text(f'{{"name": "{PACKAGE}", "version": "0.147.0"}}')
    (place / "bin/codex").symlink_to(place / f"lib/node_modules/{PACKAGE}/bin/codex.js")
    assert (only().version, runs(place)) == ("0.147.0", 0)


@pytest.fixture(name="manage")
def _manage(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], VersionManager]:
    """Put the shim of a version manager on PATH, whose user chose 0.169.0."""

    def manage(kind: str) -> VersionManager:
        manager = VersionManager(kind, place / "managed")
        monkeypatch.setenv("HOME", str(manager.home))
        monkeypatch.setenv("PATH", f"{manager.shim.parent}:{os.defpath}")
        manager.choose("0.169.0")
        return manager

    return manage


@pytest.mark.parametrize("kind", MANAGERS)
def test_what_a_shim_would_run_is_read_where_it_decides(
    place: Path, manage: Callable[[str], VersionManager], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The project's file counts, also in folders below it, else that of the user. Nothing is run."""
    manager = manage(kind)
    assert only().version == "0.169.0"
    by_project = manager.choose("0.147.0", place / "project")
    (place / "project/below").mkdir()
    for folder in (place / "project", place / "project/below"):
        monkeypatch.chdir(folder)
        (found,) = [each for each in examined().releases if each.version]
        assert (found.version, found.verdict) == ("0.147.0", Verdict.COMPATIBLE)
        at = found.found[0]
        assert (at.kind, at.place) == ("path", str(manager.shim))
        assert at.chosen_by == f"{by_project}:{2 if kind == 'mise' else 1}"
    assert not manager.ran.exists()


@pytest.mark.parametrize("version", ["lts", "99.0.0", "../../../../project"])
def test_a_shim_whose_release_nobody_can_read_is_not_run(
    place: Path, manage: Callable[[str], VersionManager], version: str
) -> None:
    """A name that only the manager understands, or a version that isn't installed, is no verdict."""
    manager = manage("asdf")
    (place / "project/.tool-versions").write_text(f"nodejs {version}\n")
    found = only()
    assert (found.version, found.knowledge, examined().exit_code) == (None, Knowledge.NOT_RUN, 2)
    assert f"no release is known for `nodejs {version}` in {place}/project/.tool-versions:1" in found.detail
    assert not manager.ran.exists()


def test_an_unknown_shim_is_not_run(place: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the project may decide what it runs."""
    shim = install(at="tools/shims/codex")
    monkeypatch.setenv("PATH", str(shim.parent))
    assert (only().knowledge, "shim of a version manager" in only().detail) == (Knowledge.NOT_RUN, True)
    assert runs(place) == 0


def test_a_shim_that_no_file_decides_is_asked(manage: Callable[[str], VersionManager]) -> None:
    """It is asked outside of the project, and says itself what is wrong."""
    manager = manage("nodenv")
    (manager.root / ".nodenv/version").unlink()
    assert (only().version, only().knowledge) == (None, Knowledge.NO_VERSION)


@each("text", ["^0.147.0", "latest"])
def test_a_place_without_a_release_is_told_and_is_not_safe(place: Path, text: str) -> None:
    """It is listed with what it says and the newest safe release, and the exit code is not 0."""
    Path("Dockerfile").write_text(f"RUN npm install -g {PACKAGE}@0.169.0")
    assert examined().exit_code == 0
    pin(text)
    _, found = examined().releases
    assert (found.version, found.knowledge, found.found) == (
        None,
        Knowledge.NOT_PINNED,
        (FoundAt("pin", "package.json:1"),),
    )
    assert (text in found.detail, found.newer_safe, found.command) == (True, "0.169.0", None)
    assert examined().exit_code == 2
    Path("package.json").unlink()


def test_what_can_not_be_searched_is_told_and_is_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what it pins."""
    pin("0.169.0")
    monkeypatch.setattr(project_pins, "MOST_FILES", 0)
    report = examined()
    assert (len(report.not_searched), report.exit_code) == (1, 2)


def test_a_path_may_have_any_bytes(place: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is no text is a name all the same."""
    folder = os.fsdecode(b"\xff")
    install(at=f"{folder}/codex")
    monkeypatch.setenv("PATH", f"{place}/{folder}")
    assert [only().version, only().version, runs(place)] == ["0.169.0", "0.169.0", 2]


@pytest.mark.parametrize(
    "script, why",
    [
        ("exec sleep 1000", "`codex --version` did not end within 0 s"),
        ("exit 3", "`codex --version` ended with exit code 3 and printed no version"),
        ("echo hello", "`codex --version` printed no version"),
    ],
)
def test_an_executable_without_a_version_says_why(
    install: Install, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    """One that hangs is ended, and one that prints something else has no version."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{os.defpath}")
    install(script)
    monkeypatch.setattr(doctor, "TIMEOUT", 0.3 if "sleep" in script else 60)
    found = only()
    assert (found.version, found.knowledge, found.detail) == (None, Knowledge.NO_VERSION, why)
    assert found.command == "turngate probe codex"


def test_an_executable_that_can_not_be_started_says_why(install: Install) -> None:
    """A missing interpreter is reported, and is no crash."""
    install(shebang="/nowhere/node")
    assert (only().knowledge, "could not be started" in only().detail) == (Knowledge.NO_VERSION, True)


def test_engines_are_asked_at_the_same_time(place: Path, install: Install) -> None:
    """Each of two engines waits for the other."""
    os.mkfifo(place / "one")
    os.mkfifo(place / "two")
    install(f"echo >{place}/one; read x <{place}/two; echo codex-cli 0.169.0")
    install(f"read x <{place}/one; echo >{place}/two; echo 0.61.0", at="bin/gemini")
    assert [found.name for found in examined().releases] == ["codex@0.169.0", "gemini@0.61.0"]


def test_nothing_is_found_in_an_empty_folder() -> None:
    """Without an engine and without a pin, there is no answer."""
    assert (examined().releases, examined().exit_code) == ((), 2)
