"""Executables are found, asked for their version, recognized as simulated, and watched for changes."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.releases import NEWEST
from turngate.contract.engine_contract import Published
from turngate.errors import MachineError, NotInstalledError
from turngate.process import executable
from turngate.process.executable import (
    MARKER,
    difference,
    engine_version,
    find_executable,
    fingerprint,
    is_simulated,
    missing_interpreter,
    query_version,
    remember_version,
    remembered_version,
)


@pytest.fixture(name="codex")
def _codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a codex on PATH that prints its version if its environment has HOME and no secret."""
    codex = tmp_path / "codex"
    codex.write_text('#!/bin/sh\n[ -n "$HOME" ] && [ -z "$SECRET" ] && echo "codex-cli 0.169.0"\n')
    codex.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SECRET", "s3cr3t")
    return codex


def test_an_engine_is_found_on_path(codex: Path) -> None:
    """The engine is found by the name of its executable in the contract."""
    assert find_executable(NEWEST["codex"]) == codex


def test_only_an_executable_file_is_an_engine(codex: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder, a file without permission and a missing folder on PATH are passed over."""
    for name in ("folder", "text", "missing"):
        (tmp_path / name).mkdir()
    (tmp_path / "folder/codex").mkdir()
    (tmp_path / "text/codex").write_text("#!/bin/sh\n")
    (tmp_path / "missing").rmdir()
    monkeypatch.setenv("PATH", ":".join(f"{tmp_path}/{name}" for name in ("folder", "text", "missing", ".")))
    assert find_executable(NEWEST["codex"]).samefile(codex)


def test_an_engine_that_is_missing_is_an_error_that_says_what_to_do(tmp_path: Path, codex: Path) -> None:
    """The hint says to install the engine from npm or put it on PATH."""
    codex.unlink()
    with pytest.raises(NotInstalledError, match=r"no codex on PATH \(install it: npm install --global @openai/codex\)"):
        find_executable(NEWEST["codex"])
    nowhere = replace(NEWEST["codex"], published=Published())
    with pytest.raises(NotInstalledError, match=r"no codex on PATH \(put it on PATH\)"):
        find_executable(nowhere)


def test_an_executable_says_its_version(codex: Path) -> None:
    """The version is asked in the environment of engines, or in a given one; other output gives None."""
    assert engine_version(NEWEST["codex"], codex) == "0.169.0"
    assert engine_version(NEWEST["codex"], codex, {"HOME": "/"}) == "0.169.0"
    assert engine_version(NEWEST["codex"], codex, {"HOME": "/", "SECRET": "s"}) is None
    with pytest.raises(MachineError, match="could not be started"):
        engine_version(NEWEST["codex"], codex.with_name("none"))


def test_a_version_on_the_other_stream_is_told(codex: Path) -> None:
    """A hint says that the other stream has the version, or else what was printed in its place."""
    codex.write_text('#!/bin/sh\necho "codex-cli 0.169.0" >&2\n')
    query = NEWEST["codex"].version_query
    hint = "stdout was empty, stderr has it; set `stream: stderr`"
    assert query_version(query, codex, {"HOME": "/"}, None) == (None, hint)
    assert query_version(replace(query, stream="stderr"), codex, {"HOME": "/"}, None) == ("0.169.0", "")
    assert query_version(replace(query, other_stream=True), codex, {"HOME": "/"}, None) == ("0.169.0", "")
    codex.write_text('#!/bin/sh\necho "not now" >&2\n')
    assert query_version(query, codex, {"HOME": "/"}, None) == (None, "it printed 'not now'")


def test_versions_are_remembered_by_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file holds the versions of the executables that were asked last; a damaged or foreign one holds none."""
    monkeypatch.setattr(executable, "REMEMBERED", 2)
    one, two, three, file = (tmp_path / name for name in ("one", "two", "three", "new/versions.json"))
    assert remembered_version(one, "1", file) is None
    for path in (one, two, one, three):
        remember_version(path, "1", f"0.1.0-{path.name}", file)
    seen = [remembered_version(path, now, file) for path in (one, two, three) for now in ("1", "2")]
    assert seen == ["0.1.0-one", None, None, None, "0.1.0-three", None]
    file.chmod(0o666)
    assert remembered_version(one, "1", file) is None
    for text in ("", "[]", '{"a": 1}', "[" * 10_000):
        file.unlink()
        file.write_text(text)
        assert remembered_version(one, "1", file) is None
        remember_version(one, "1", "0.1.0", file)
        assert remembered_version(one, "1", file) == "0.1.0"


def test_a_marked_file_is_simulated_and_so_are_its_links_and_copies(tmp_path: Path) -> None:
    """A simulated engine is recognized by its marker, also through links and in copies."""
    engine = tmp_path / "engine"
    engine.write_bytes(b"#!/bin/sh\n" + MARKER + b"\nexec true\n")
    (tmp_path / "link").symlink_to(engine)
    shutil.copy(engine, tmp_path / "copy")
    assert all(is_simulated(tmp_path / name) for name in ("engine", "link", "copy"))


@pytest.mark.parametrize(
    "start, missing",
    [
        ("#!/usr/bin/env no-such-node", "no-such-node"),
        ("#!/usr/bin/env -S A=b no-such-node --flag", "no-such-node"),
        ("#!/no/such/node -x", "/no/such/node"),
        ("#!/usr/bin/env sh", None),
        (f"#!{sys.executable}", None),
        ("#!", None),
        ("\x7fELF", None),
    ],
)
def test_a_script_may_lack_the_program_that_runs_it(start: str, missing: str | None, tmp_path: Path) -> None:
    """The `#!` line names it, directly or by way of env."""
    (tmp_path / "codex").write_text(f"{start}\n")
    assert missing_interpreter(tmp_path / "codex") == missing


def test_anything_else_is_not(tmp_path: Path) -> None:
    """A program that mentions the marker elsewhere and an unreadable file are not simulated."""
    mentions, late, binary = tmp_path / "mentions", tmp_path / "late", tmp_path / "binary"
    mentions.write_bytes(b"#!/bin/sh\necho '" + MARKER + b"'\n")
    late.write_bytes(b"#\n" * 4096 + MARKER + b"\n")
    binary.write_bytes(os.urandom(10_000))
    assert not any(map(is_simulated, (mentions, late, binary, tmp_path, tmp_path / "none")))


@pytest.fixture(name="installed")
def _installed(tmp_path: Path) -> Path:
    """Create an npm installation: a linked executable and another package."""
    for name in ("engine/cli.js", "engine/vendor/bin", "helper/index.js"):
        file = tmp_path / "node_modules" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    link = tmp_path / "node_modules" / ".bin" / "engine"
    link.parent.mkdir()
    link.symlink_to("../engine/cli.js")
    return link


def test_nothing_changed(installed: Path) -> None:
    """Comparing unchanged files reports nothing."""
    assert difference(fingerprint(installed), installed) == ""


def test_the_executable_changed(tmp_path: Path) -> None:
    """New content of the executable is a change, even with the same size and time."""
    executable = tmp_path / "engine"
    executable.write_text("engine")
    before, times = fingerprint(executable), executable.stat()
    executable.write_text("ENGINE")
    os.utime(executable, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert difference(before, executable) == f"1 files changed, including {executable}"


@pytest.mark.parametrize("change", ["touched", "added", "removed"])
def test_what_is_installed_with_it_changed(installed: Path, change: str) -> None:
    """A changed, new or missing file in any package of the installation is a change."""
    before, helper = fingerprint(installed), installed.parents[1] / "helper/index.js"
    if change == "touched":
        helper.write_text("newer, and longer")
    elif change == "added":
        helper = helper.with_name("new.js")
        helper.touch()
    else:
        helper.unlink()
    assert difference(before, installed) == f"1 files changed, including {helper}"


def test_the_executable_is_gone(installed: Path) -> None:
    """A missing executable is a change and raises no exception."""
    before = fingerprint(installed)
    installed.resolve().unlink()
    assert difference(before, installed) == "the executable can no longer be read: No such file or directory"


def test_neighbours_outside_an_installation_do_not_count(tmp_path: Path) -> None:
    """Without an npm installation only the executable itself is compared."""
    executable = tmp_path / "engine"
    executable.write_text("engine")
    before = fingerprint(executable)
    (tmp_path / "notes").touch()
    assert difference(before, executable) == ""
