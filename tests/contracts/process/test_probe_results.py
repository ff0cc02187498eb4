"""A probe's result is read back only for its executable, contract and settings, and its file is not trusted."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from turngate.contract import load
from turngate.contract.verdict import Verdict
from turngate.model import EngineResumeCapability
from turngate.process import probe_results
from turngate.process.executable import identity
from turngate.process.probe_results import ProbeResult, last_result, save_result


@pytest.fixture(name="executable")
def _executable(tmp_path: Path) -> Path:
    """An engine's executable."""
    file = tmp_path / "bin/codex"
    file.parent.mkdir()
    file.write_text("engine")
    return file


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Path:
    """Return the path of a cache that doesn't exist yet."""
    return tmp_path / "cache"


def result(executable: Path, *, engine: str = "codex", detail: str = "resumed") -> ProbeResult:
    """Return the result of a probe."""
    able = EngineResumeCapability(supported=True, probe_method="command", detail=detail)
    return ProbeResult(
        engine=engine,
        executable=os.path.realpath(executable),
        identity=identity(executable),
        version="0.169.0",
        contract_version=load.contract(engine).at().contract_version,
        verdict=Verdict.DEGRADED,
        clause_set="2026-12",
        capability=able,
        at=datetime(2026, 11, 22, 1, 2, 3, tzinfo=UTC),
        turngate="0.1.0",
    )


def last(executable: Path, cache: Path, engine: str = "codex") -> ProbeResult | None:
    """Return the last result of an executable as an engine, without settings of the user."""
    return last_result(load.contract(engine).at(), executable, "", cache)


def only_file(cache: Path) -> Path:
    """Return the only file in a cache."""
    (file,) = (cache / "verdicts").iterdir()
    return file


def test_a_result_is_read_back(executable: Path, cache: Path) -> None:
    """The saved result is read back, by any path of the executable; the last one wins."""
    assert last(executable, cache) is None
    save_result(result(executable, detail="before"), cache)
    save_result(result(executable), cache)
    link = executable.with_name("link")
    link.symlink_to(executable)
    for path in (executable, link):
        assert last(path, cache) == result(executable)
    assert only_file(cache).stat().st_mode & 0o777 == 0o600


def test_other_executables_have_no_part_in_it(executable: Path, cache: Path) -> None:
    """A copy, a changed file, and the same program as another engine have no result."""
    save_result(result(executable), cache)
    copy = executable.with_name("copy")
    copy.write_text("engine")
    assert last(copy, cache) is None
    assert last(executable, cache, "gemini") is None
    executable.write_text("newer")
    assert last(executable, cache) is None
    executable.unlink()
    assert last(executable, cache) is None


def test_a_long_detail_is_cut(executable: Path, cache: Path) -> None:
    """A long detail is cut, so that the file stays small enough to read."""
    save_result(result(executable, detail="é" * 10**6), cache)
    saved = last(executable, cache)
    assert saved
    assert len(saved.capability.detail) < 1200


def test_the_oldest_are_dropped(executable: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest results are kept."""
    monkeypatch.setattr(probe_results, "KEPT", 2)
    for i, engine in enumerate(("codex", "gemini", "qwen")):
        save_result(result(executable, engine=engine), cache)
        # files written in one moment may have the same time
        newest = max((cache / "verdicts").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (i, i))
    assert last(executable, cache) is None
    assert last(executable, cache, "gemini")
    assert last(executable, cache, "qwen")


def test_a_cache_that_can_not_be_written_is_no_error(executable: Path, cache: Path) -> None:
    """An unwritable cache is no error, since it only saves time, and no partial file stays."""
    cache.write_text("a file")
    save_result(result(executable), cache)
    assert last(executable, cache) is None
    cache.unlink()
    save_result(result(executable), cache)
    place = only_file(cache)
    place.unlink()
    place.mkdir()
    save_result(result(executable), cache)
    assert list(place.parent.iterdir()) == [place]


def changed(**changes: Any) -> Callable[[Path], object]:
    """Change fields of the file."""
    return lambda file: file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def piped(file: Path) -> None:
    """Replace the file by a pipe without a writer."""
    file.unlink()
    os.mkfifo(file, 0o600)


def linked(file: Path) -> None:
    """Replace the file by a link."""
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_text(""),
        lambda file: file.write_text("[]"),
        lambda file: file.write_text("[" * 10_000),
        lambda file: file.write_bytes(b"\xff"),
        lambda file: file.write_text(file.read_text() + " " * 20_000),
        lambda file: file.write_text(file.read_text() + "{}"),
        lambda file: file.chmod(0o620),
        lambda file: file.chmod(0o602),
        changed(more=1),
        changed(schema="other/1"),
        changed(schema=1),
        changed(verdict="splendid"),
        changed(at="2026-11-22T01:02:03"),
        changed(at=0),
        changed(version=1),
        changed(identity="other"),
        changed(engine="gemini"),
        changed(executable="/other"),
        changed(profile="resumable"),
        changed(contract_version="0.9"),
        changed(settings="other"),
        changed(turngate="x" * 1000),
        changed(capability={"supported": "yes", "probe_method": "command", "detail": ""}),
        changed(capability={"supported": True, "probe_method": "guess", "detail": ""}),
        changed(capability={"supported": True, "probe_method": "command", "detail": "", "more": 1}),
        piped,
        linked,
    ],
)
def test_a_hostile_file_is_no_result(harm: Callable[[Path], object], executable: Path, cache: Path) -> None:
    """A file that is malformed, about another executable, or writable by others is ignored."""
    save_result(result(executable), cache)
    harm(only_file(cache))
    assert last(executable, cache) is None


def test_a_file_of_somebody_else_is_no_result(executable: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another user owns is ignored."""
    save_result(result(executable), cache)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert last(executable, cache) is None


def test_a_result_holds_for_one_contract_and_these_settings(executable: Path, cache: Path) -> None:
    """Results by another version of the contract, or with other settings of the user, are kept beside it."""
    contract, mine = load.contract("codex").at(), result(executable)
    save_result(mine, cache)
    changes: dict[str, dict[str, Any]] = {"contract": {"contract_version": "0.9"}, "settings": {"settings": "mine"}}
    other = {name: replace(mine, **change) for name, change in changes.items()}
    for one in other.values():
        save_result(one, cache)
    assert last(executable, cache) == mine
    assert last_result(replace(contract, contract_version="0.9"), executable, "", cache) == other["contract"]
    assert last_result(contract, executable, "mine", cache) == other["settings"]
    assert last_result(contract, executable, "others", cache) is None


def test_the_result_of_an_earlier_turngate_is_none(executable: Path, cache: Path) -> None:
    """A file of format 1 names no contract; it is replaced by the next result."""
    save_result(result(executable), cache)
    written = """{
        "engine": "codex", "executable": "EXECUTABLE", "identity": "IDENTITY", "version": "0.169.0",
        "at": "2026-11-22T01:02:03Z", "turngate": "0.1.0", "verdict": "degraded",
        "capability": {"supported": true, "probe_method": "command", "detail": "resumed"}, "profile": "resumable"
    }""".replace("EXECUTABLE", os.path.realpath(executable)).replace("IDENTITY", identity(executable))
    only_file(cache).write_text(written)
    assert last(executable, cache) is None
    save_result(result(executable), cache)
    assert last(executable, cache) == result(executable)


def test_the_result_of_a_newer_turngate_is_left_alone(
    executable: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither used nor replaced; the log says so once, and what to do."""
    save_result(result(executable), cache)
    changed(schema="turngate.executable-result/3", more="x" * 50_000)(only_file(cache))
    newer = only_file(cache).read_bytes()
    for _ in range(2):
        assert last(executable, cache) is None
        save_result(result(executable), cache)
    assert only_file(cache).read_bytes() == newer
    (message,) = caplog.messages
    assert "a newer turngate wrote it: its format is turngate.executable-result/3" in message
    assert f"{only_file(cache)} is left alone" in message
    assert "delete the file" in message


def test_an_identity_changes_with_the_file(executable: Path) -> None:
    """The identity changes with the content, and with a replaced file of the same content, size and time."""
    before = identity(executable)
    assert identity(executable) == before
    times, other = executable.stat(), executable.with_name("other")
    other.write_text("engine")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert identity(other) != before
    executable.write_text("ENGINE!")
    assert identity(executable) != before
