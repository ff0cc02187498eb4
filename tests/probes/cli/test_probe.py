"""The subcommands on contracts and engines, and what a signal does; probing itself is tested end to end."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.probes import engines
from turngate import cli
from turngate.contract import load
from turngate_probes.harness.interrupt import interrupting
from turngate_probes.releases.npm import pinned_version


def test_a_wrong_contract_is_told_by_line_and_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each error has file, line and path; the exit code is 2, and a good file beside it is still called valid."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    text = (Path(load.__file__).parents[1] / "engines/codex.yaml").read_text()
    good.write_text(text)
    bad.write_text(text.replace("status: active", "status: asleep"))
    assert cli.run(["contracts", "check", str(bad), str(good)]) == 2
    said = capsys.readouterr()
    line = 1 + text[: text.index("status: active")].count("\n")
    assert said.err.startswith(f"{bad}:{line}:")
    assert "$.lifecycle.status" in said.err
    assert said.out.startswith(f"{good}: valid")


@pytest.mark.parametrize("text, line", [("engine: [", 1), ("engine: codex\nengine: codex\n", 2)])
def test_a_file_that_is_no_document_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int
) -> None:
    """A syntax error and a duplicate key end with exit code 2 and their place."""
    (tmp_path / "bad.yaml").write_text(text)
    assert cli.run(["contracts", "check", str(tmp_path / "bad.yaml")]) == 2
    assert f"{tmp_path}/bad.yaml:{line}:" in capsys.readouterr().err


def test_engines_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every engine is there with its pin, and where it is on PATH; as text and as JSON."""
    executable = engines.install(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["engines", "list", "--json"]) == 0
    rows = {row["engine"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(load.engines())
    assert (rows["codex"]["on_path"], rows["codex"]["pinned"]) == (str(executable), pinned_version("codex"))
    assert rows["iflow"]["lifecycle"] == "sealed"
    assert cli.run(["engines", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert str(executable) in lines["codex"]
    assert "not on PATH" in lines["iflow"]


def test_an_engine_without_releases_can_not_be_installed(capsys: pytest.CaptureFixture[str]) -> None:
    """What npm does not have is a mistake of usage."""
    assert cli.run(["engines", "install", "iflow"]) == 2
    assert "no release that npm could install" in capsys.readouterr().err


def test_installing_without_npm_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No npm is a failed environment, told with what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path))
    assert cli.run(["engines", "install", "codex"]) == 2
    assert "npm was not found on PATH" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_and_a_second_one_kills(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first signal calls the interrupt, on another thread; the second one ends the process."""
    called, killed, codes = threading.Event(), threading.Event(), list[int]()
    interrupts: list[threading.Thread] = []

    def interrupt() -> None:
        interrupts.append(threading.current_thread())
        called.set()

    def exit_at_once(code: int) -> None:
        codes.append(code)
        killed.set()

    monkeypatch.setattr(os, "_exit", exit_at_once)
    with interrupting(interrupt):
        signal.raise_signal(number)
        assert called.wait(60)
        assert codes == []
        signal.raise_signal(number)
        assert killed.wait(60)
    assert codes == [128 + number]
    assert interrupts[0] is not threading.main_thread()
