"""A probe with the user's settings says which of them it copied and which clauses they change, and tells no secret."""

import json
import tomllib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import engines
from turngate import cli
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.home_and_workspace import CopiedFile
from turngate.contract.session_ids import filled, slots
from turngate.files import default_cache
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Journal, read
from turngate_probes.probe import Probe
from turngate_probes.probe_settings import ProbeSettings
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.source import Release
from turngate_probes.report import FORMATS
from turngate_probes.report.build import build
from turngate_probes.report.reports import ProbeReport, UserSettings
from turngate_probes.report.wording import settings_lines
from turngate_probes.simulate import simulated_process

CODEX = load.contract("codex").at("0.169.0")
SECRET = "sk-planted-0123456789abcdefghij"
# keys that no contract lists; none may be copied
ELSEWHERE = {
    "model.name": SECRET,
    "notify": ["curl", SECRET],
    "experimental_bearer_token": SECRET,
    "security.auth.apiKey": SECRET,
    "model_providers.mine.base_url": f"http://user:{SECRET}@localhost/",
    "model_providers.mine.http_headers.Authorization": f"Bearer {SECRET}",
    "model_providers.mine.query_params.key": SECRET,
    "mcp_servers.mine.args": ["--token", SECRET],
    "mcpServers.mine.env.TOKEN": SECRET,
    "mcpServers.mine.headers.Authorization": SECRET,
    "otel.headers.key": SECRET,
    "shell_environment_policy.set.KEY": SECRET,
    "env.KEY": SECRET,
}
HIDING = "{CODEX_HOME}/config.toml: hide_agent_reasoning"
# loses its session id if the user hides reasoning
MOODY = """#!/bin/sh
folder=$(dirname "$0")
grep -qs hide_agent_reasoning "$HOME/.codex/config.toml" && exec "$folder/hiding/codex" "$@"
exec "$folder/plain/codex" "$@"
"""


@pytest.fixture(name="home", autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of codex, and a cache for each test."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("CODEX_HOME", str(home))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return home


@pytest.fixture(name="executable")
def _executable(tmp_path: Path) -> Path:
    """A codex that fails if the user hides reasoning."""
    engines.install(tmp_path / "bin" / "plain")
    engines.install(tmp_path / "bin" / "hiding", "renames-id")
    executable = tmp_path / "bin" / "codex"
    executable.write_text(MOODY)
    executable.chmod(0o755)
    return executable


def probed(executable: Path) -> ProbeReport:
    """Test one clause with the user's settings."""
    boxes, path = default_cache() / "sandboxes", executable.parent / "probe.ndjson"
    settings = ProbeSettings("hermetic", 2, boxes, clauses=("handle.present",), my_settings=True)
    with closing(Journal(path)) as journal:
        runner = CaseRunner.of(boxes, 2, Interrupt())
        Probe(settings, journal, runner).run([Release("codex", "0.169.0", executable, "path", CODEX, "")])
    return build(read(path))


@pytest.mark.long
def test_what_fails_is_tested_without_the_settings_too(home: Path, executable: Path) -> None:
    """The report names what was copied, and says of the clause that fails that it passes without it."""
    (home / "config.toml").write_text('hide_agent_reasoning = true\nmodel = "mine"\n')
    (release,) = probed(executable).releases
    (clause,) = (clause for clause in release.clauses if clause.id == "handle.present")
    assert (clause.result, clause.detail.endswith("; without your settings: pass")) == (Result.FAIL, True)
    assert release.settings == UserSettings((HIDING,), {"handle.present": Result.PASS})
    assert settings_lines(release) == (HIDING, "clauses that they change: handle.present (pass without them)")


@pytest.mark.long
def test_what_was_not_tested_without_the_settings_is_not_said_to_be_the_same(home: Path, executable: Path) -> None:
    """After an interrupt it is not known whether a setting changes the clause that failed."""
    (home / "config.toml").write_text("hide_agent_reasoning = true\n")
    (release,) = probed(executable).releases
    for without in ({}, {"handle.present": Result.NOT_RUN}):
        cut = replace(release, settings=UserSettings((HIDING,), without))
        told = "clauses that they change: none; not known, since it was not tested without them: handle.present"
        assert settings_lines(cut)[1] == told


def test_what_passes_is_not_tested_again(home: Path, executable: Path) -> None:
    """With settings that do no harm there are no more turns, and no clause is said to change."""
    (home / "config.toml").write_text('history.persistence = "none"\n')
    (release,) = probed(executable).releases
    assert release.settings == UserSettings(("{CODEX_HOME}/config.toml: history.persistence",))
    assert settings_lines(release)[1] == "clauses that they change: none"


def test_who_has_no_settings_is_told(executable: Path) -> None:
    """Without a value that the contract lists, the probe is the one without settings."""
    (release,) = probed(executable).releases
    assert release.settings == UserSettings(())
    assert settings_lines(release) == ("none: you have none that the contract lists",)


@pytest.mark.long
def test_settings_that_change_meanwhile_show_nothing(
    home: Path, executable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a setting changes during the probe, the release is not judged."""
    play = CaseRunner.play

    def changing(*given: object) -> None:
        (home / "config.toml").write_text("hide_agent_reasoning = true\n")
        play(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(CaseRunner, "play", changing)
    (release,) = probed(executable).releases
    assert release.failed
    assert release.failed.what == "settings of the user changed during the probe"


@pytest.mark.parametrize(
    "engine,level,clause,written_too",
    [
        ("codex", "hermetic", "handle.present", "report.html"),
        *(
            pytest.param(engine, "hermetic", "handle.present", "report.html", marks=pytest.mark.long)
            for engine in load.engine_names()
            if engine != "codex" and load.contract(engine).at().copied_settings.files
        ),
        pytest.param("codex", "long", "resume.after-compaction", "report.html", marks=pytest.mark.long),
        pytest.param("codex", "server", "server.final-data", "turngate.db", marks=pytest.mark.long),
    ],
)
def test_no_secret_leaves_the_home(
    engine: str,
    level: str,
    clause: str,
    written_too: str,
    executable: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """One in every place of a home, project and environment is in no sandbox, server, journal, report or result."""
    contract = load.contract(engine).at(pinned_version(engine))
    if engine != "codex":
        executable = simulated_process.install(contract, tmp_path / "bin")
    home, project = tmp_path / "user", tmp_path / "project"
    for name in (*contract.environment.passed, "MY_SETTING", "HTTPS_PROXY"):
        monkeypatch.setenv(name, SECRET)
    for name in contract.environment.locations:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    copied = contract.copied_settings.files
    places = slots(contract.store.locations if contract.store else {}, {"HOME": str(home)})
    plant(copied, lambda file: Path(filled(file, places)))
    plant(copied, lambda file: project / Path(filled(file, places)).relative_to(home))
    (project / ".env").write_text(f"KEY={SECRET}\n")
    monkeypatch.chdir(project)
    reports = [word for suffix in FORMATS for word in ("--report", str(tmp_path / f"report{suffix}"))]
    asked = ("--my-settings", "--level", level, "--clause", clause)
    words = (*asked, "--keep", str(tmp_path / "kept"), "--verbose", *reports)
    assert cli.run(["probe", f"{engine}={executable}", *words]) == (engine == "codex")
    said = capsys.readouterr()
    names = "; ".join(f"{file.file}: {file.keys[0]}" for file in copied)
    assert f"{engine}@{contract.version} with your settings: {names}\n" in said.out
    assert SECRET not in said.out + said.err + caplog.text
    kept = {home, project}
    written = [path for path in tmp_path.rglob("*") if path.is_file() and kept.isdisjoint(path.parents)]
    assert {*(Path(file.into).name for file in copied), "probe.ndjson", written_too} <= {path.name for path in written}
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


def plant(copied: Iterable[CopiedFile], place: Callable[[str], Path]) -> None:
    """Put a secret into each settings file, under keys that are copied too, and into files beside it."""
    for file in copied:
        path, (harmless, *keys) = place(file.file), file.keys
        values = ELSEWHERE | dict.fromkeys(keys, SECRET) | {key: [SECRET] for key in keys[1:2]} | {harmless: True}
        for beside in (".env", "auth.json", "history.jsonl", "sessions/rollout.jsonl"):
            (path.parent / beside).parent.mkdir(parents=True, exist_ok=True)
            (path.parent / beside).write_text(f"KEY={SECRET}\n")
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
        path.write_text("".join(lines) if path.suffix == ".toml" else json.dumps(tomllib.loads("".join(lines))))
