"""How the release behind a target is obtained."""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.probes import engines, fake_npm
from turngate.contract import load
from turngate.errors import MachineError, NotFoundError, NotInstalledError, UsageError
from turngate.process.execution import Stop
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.cache import evict, home_of
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.source import (
    Release,
    ReleaseSource,
    not_installed,
    not_pinned,
    of_pin,
    published,
)
from turngate_probes.releases.target import Target, parse_target
from turngate_probes.simulate.simulated_process import install


@pytest.fixture(name="path")
def _path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty folder as PATH, a separate cache, and no recordings."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNGATE_FIXTURES", str(tmp_path / "none"))
    return folder


@pytest.fixture(name="npm")
def _npm(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a fake npm with two releases of codex on PATH; return the folder of its registry."""
    program = path / "npm"
    played = Path(fake_npm.__file__).read_text().replace("bin/engine", "bin/codex")
    program.write_text(f"#!{sys.executable}\n{played}")
    program.chmod(0o755)
    (tmp_path / "published.json").write_text(json.dumps(["0.147.0", pinned_version("codex")]))
    (tmp_path / "without").touch()
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", str(tmp_path))
    return tmp_path


def obtained(text: str, stop: Stop | None = None) -> Release:
    """Return the release of a target, and ignore messages."""
    with ReleaseSource().held(parse_target(text), lambda _: None, stop) as release:
        return release


def test_an_executable_that_was_named(path: Path, tmp_path: Path) -> None:
    """A given executable is asked for its version, which selects the contract."""
    executable = engines.install(tmp_path / "here", "other-version")
    release = obtained(f"codex={executable}")
    assert (release.version, release.executable, release.source) == ("0.168.0", executable, "path")
    assert release.contract.version == "0.168.0"
    assert (release.name, release.note) == ("codex@0.168.0", "the given executable")


@pytest.mark.long
def test_a_simulated_engine_is_named_as_one(path: Path, tmp_path: Path) -> None:
    """A simulated engine is labelled as simulated, on PATH too, so that nobody mistakes its verdict for a real one."""
    executable = install(load.contract("codex").at("0.169.0"), path)
    for target in ("codex", f"codex={executable}"):
        release = obtained(target)
        assert (release.executable, release.version) == (executable, "0.169.0")
        assert "says nothing about the real engine" in release.note


@pytest.mark.parametrize("fault", ["no-version", "odd-version"])
def test_an_executable_of_unknown_version(path: Path, tmp_path: Path, fault: str) -> None:
    """An executable of unknown version is checked against the newest contract."""
    release = obtained(f"codex={engines.install(tmp_path, fault)}")
    assert (release.version, release.name, release.contract.version) == (None, "codex@unknown", None)


def test_a_version_on_the_other_stream_is_noted(path: Path, tmp_path: Path) -> None:
    """The note says which stream to set in the contract."""
    engine = tmp_path / "codex"
    engine.write_text("#!/bin/sh\necho 'codex-cli 0.169.0' >&2\n")
    engine.chmod(0o755)
    release = obtained(f"codex={engine}")
    assert release.version is None
    assert release.note.endswith("; no version: stdout was empty, stderr has it, set `stream: stderr`")


def test_what_was_printed_in_place_of_a_version_is_noted(path: Path, tmp_path: Path) -> None:
    """The note quotes it, so that a wrapper or another program is recognized."""
    engine = tmp_path / "codex"
    engine.write_text("#!/bin/sh\necho 'starting; codex-cli 0.169.0'\n")
    engine.chmod(0o755)
    assert obtained(f"codex={engine}").note.endswith("; no version: it printed 'starting, codex-cli 0.169.0'")


@pytest.mark.parametrize("what", ["missing", "folder"])
def test_what_is_no_executable(path: Path, tmp_path: Path, what: str) -> None:
    """A missing file and a folder are rejected at once, with the path."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotFoundError, match="there is no executable") as reported:
        obtained(f"codex={tmp_path / what}")
    assert str(tmp_path / what) in reported.value.what


def test_a_script_whose_interpreter_is_missing(path: Path) -> None:
    """That the machine lacks Node.js says nothing about the engine."""
    (path / "codex").write_text("#!/usr/bin/env node\n")
    (path / "codex").chmod(0o755)
    with pytest.raises(NotInstalledError, match="codex runs with node, which is not here") as refused:
        obtained("codex")
    assert refused.value.hint == "install Node.js, or put it on PATH"


def test_a_file_that_is_not_executable(path: Path, tmp_path: Path) -> None:
    """A file that exists but lacks the permission is rejected with the command that gives it."""
    plain = tmp_path / "my codex"
    plain.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError) as reported:
        obtained(f"codex={plain}")
    assert reported.value.what == f"{plain} exists, but isn't executable"
    assert reported.value.hint == f"run: chmod +x '{plain}'"


def test_an_executable_that_can_not_start(path: Path, tmp_path: Path) -> None:
    """A file that is executable but no program is an environment error."""
    executable = tmp_path / "codex"
    executable.write_text("#!/nonexistent/interpreter\n")
    executable.chmod(0o755)
    with pytest.raises(MachineError, match="could not be started"):
        obtained(f"codex={executable}")


def test_the_engine_on_path_comes_first(path: Path) -> None:
    """Without version or path the one on PATH is taken."""
    executable = engines.install(path)
    release = obtained("codex")
    assert (release.executable, release.source, release.note) == (executable, "path", "found on PATH")


def test_an_absent_engine_is_installed_as_pinned(npm: Path) -> None:
    """Without an executable on PATH the pinned release is installed from npm."""
    release = obtained("codex")
    assert (release.version, release.source) == (pinned_version("codex"), "npm")
    assert release.note == "not on PATH: the pinned release"
    assert release.executable is not None
    assert release.executable.is_relative_to(npm / "cache")


def test_a_release_that_was_asked_for_is_installed(path: Path, npm: Path) -> None:
    """A requested version is installed from npm even if another is on PATH, and selects the contract."""
    engines.install(path)
    release = obtained("codex@0.147.0")
    assert (release.version, release.source, release.contract.version) == ("0.147.0", "npm", "0.147.0")


def test_a_release_of_a_known_registry_reads_its_contract_once(npm: Path) -> None:
    """With a registry that was queried, each release reads the contract file once, though it needs two contracts."""
    registry = published("codex")
    with (
        patch.object(load, "parse", wraps=load.parse) as read,
        ReleaseSource(registry).held(Target("codex", "0.147.0"), lambda _: None) as release,
    ):
        assert (release.version, read.call_count) == ("0.147.0", 1)


@pytest.mark.parametrize("text, hint", [("0.169", "nearest: 0.169.0, "), ("banana", "nearest: ")])
def test_what_is_no_whole_version_is_rejected_without_npm(path: Path, text: str, hint: str) -> None:
    """The nearest releases are those of the history, so that no registry is asked."""
    with pytest.raises(NotFoundError, match=f"has no version {text}") as reported:
        obtained(f"codex@{text}")
    assert reported.value.hint.startswith(hint)


def test_without_engine_and_npm(path: Path) -> None:
    """The error says that npm is missing, and that an executable can be given."""
    with pytest.raises(NotInstalledError, match="npm is not on PATH: install Node") as reported:
        obtained("codex")
    assert "ENGINE=/path" in reported.value.hint


def test_a_withdrawn_engine_is_judged_by_its_newest_recordings(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an executable a withdrawn engine is checked with its newest recordings.

    A note says so; without recordings it fails.
    """
    for version in ("0.5.9", "0.5.10"):
        (tmp_path / "fixtures/iflow" / version).mkdir(parents=True)
    monkeypatch.setattr(recorded_releases, "folders", lambda: [tmp_path / "fixtures"])
    release = obtained("iflow")
    assert (release.version, release.executable, release.source) == ("0.5.10", None, "recordings")
    assert release.note == "withdrawn: judged only by recordings"
    monkeypatch.setattr(recorded_releases, "folders", list)
    with pytest.raises(NotInstalledError, match="withdrawn, and there is neither an executable nor a recording"):
        obtained("iflow")


def test_a_version_of_a_withdrawn_engine_can_not_be_installed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says that the vendor withdrew the engine, and that recordings are used where there are some."""
    (tmp_path / "fixtures/iflow/0.5.19").mkdir(parents=True)
    monkeypatch.setattr(recorded_releases, "folders", lambda: [tmp_path / "fixtures"])
    withdrawn = "iflow@0.5.19 can't be installed: its vendor withdrew iflow"
    with pytest.raises(NotFoundError, match=withdrawn) as reported:
        obtained("iflow@0.5.19")
    assert "probe the recordings of 0.5.19 with turngate probe iflow" in reported.value.hint
    monkeypatch.setattr(recorded_releases, "folders", list)
    with pytest.raises(NotFoundError, match=withdrawn) as reported:
        obtained("iflow@0.5.19")
    assert "recordings" not in reported.value.hint


def test_an_engine_is_installed_if_it_is_on_path(path: Path) -> None:
    """Neither the cache nor a pin makes an engine an installed one."""
    assert not_installed("codex") == "codex is not on PATH"
    engines.install(path)
    assert not_installed("codex") is None


def test_engines_without_a_pin_and_additional_ones_are_not_pinned() -> None:
    """The pinned releases are those of engines that are not additional; an engine may have none."""
    assert not_pinned("codex") is None
    assert not_pinned("iflow") == "no release is pinned"
    assert not_pinned("hermes") == "hermes is an additional engine: name it to probe it"


def test_a_target_stands_for_the_pinned_release() -> None:
    """An engine becomes its pinned release; a version, an executable and a withdrawn engine stay what they are."""
    assert of_pin(Target("hermes", output="x")) == Target("hermes", pinned_version("hermes"), output="x")
    for target in (Target("codex", "0.147.0"), Target("codex", None, Path("/codex")), Target("iflow")):
        assert of_pin(target) == target
    with pytest.raises(UsageError, match="no release of kimi is pinned"):
        of_pin(Target("kimi"))


def test_an_interrupt_ends_the_question_for_the_version(path: Path, tmp_path: Path) -> None:
    """If the stop is already set, the executable is not asked for its version."""
    stop = Stop()
    stop.set()
    assert obtained(f"codex={engines.install(tmp_path)}", stop).version is None


def test_a_release_is_not_evicted_while_it_is_held(npm: Path) -> None:
    """A release that is installed meanwhile stays in the cache until the block ends."""
    with ReleaseSource().held(Target("codex", "0.147.0"), print) as release:
        root = home_of("codex", npm / "cache") / "0.147.0"
        assert release.executable is not None
        assert not evict(root)
    assert evict(root)


def test_a_cache_that_can_not_be_made_is_told(npm: Path) -> None:
    """A file in place of the cache directory is an environment error."""
    (npm / "cache").write_text("")
    with pytest.raises(MachineError, match="the cache cannot be written"):
        obtained("codex@0.147.0")


def test_a_command_line_is_not_a_path(tmp_path: Path) -> None:
    """A command line instead of a path is explained; a path with a space that doesn't exist is just missing."""
    for path, said in (("sh -c codex", "is a command line, not the path"), (f"{tmp_path}/my codex", "no executable")):
        with (
            pytest.raises(UsageError, match=said),
            ReleaseSource().held(parse_target(f"codex={path}"), lambda _: None),
        ):
            pass
