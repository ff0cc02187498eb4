import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.probes import engines
from turngate import cli
from turngate.contract import load
from turngate.files import contract_files
from turngate_probes.releases.pins import pinned_version


def test_engines_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every engine is listed with its pinned version and its path on PATH, as text and as JSON."""
    executable = engines.install(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["engines", "list", "--json"]) == 0
    rows = {row["engine"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(load.engine_names())
    assert (rows["codex"]["on_path"], rows["codex"]["pinned"]) == (str(executable), pinned_version("codex"))
    assert rows["iflow"]["lifecycle"] == "sealed"
    assert cli.run(["engines", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert str(executable) in lines["codex"]
    assert "not on PATH" in lines["iflow"]


def test_additional_engines_are_marked_and_installed_only_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list marks an additional engine, and an installation without names leaves it out."""
    contract = tmp_path / "engines/codex.yaml"
    contract.parent.mkdir()
    text = contract_files()["codex"].read_text("utf-8")
    contract.write_text(text.replace("executable: codex\n", "executable: codex\nadditional: true\n"))
    monkeypatch.setenv("TURNGATE_CONTRACTS", str(tmp_path))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["engines", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["codex"].endswith("(additional)")
    assert not lines["gemini"].endswith("(additional)")
    monkeypatch.setattr("turngate.engine_names", lambda: ("codex",))
    assert cli.run(["engines", "install"]) == 0
    assert cli.run(["engines", "install", "codex"]) == 2


def test_an_engine_without_releases_can_not_be_installed(capsys: pytest.CaptureFixture[str]) -> None:
    """Installing an engine that no registry has is an error, with the reason that its contract gives."""
    assert cli.run(["engines", "install", "iflow"]) == 2
    assert "turngate has no release of iflow to install\nThe vendor ended the service" in capsys.readouterr().err


def test_installing_without_npm_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without npm, installing ends with exit code 2 and says how to get npm."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path))
    assert cli.run(["engines", "install", "codex"]) == 2
    assert "npm is not on PATH: install Node.js 20 or newer" in capsys.readouterr().err


# an npm that starts another process, and tells when both run; they hold a fifo for as long as they live
NPM = """
import os, signal, subprocess, sys
held = os.open({fifo!r}, os.O_WRONLY)
os.set_inheritable(held, True)
child = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
with subprocess.Popen([sys.executable, "-ISc", child], stdout=subprocess.PIPE, close_fds=False) as started:
    started.stdout.readline()
    os.write(held, b"x")
    signal.pause()
"""


@pytest.mark.long
@pytest.mark.parametrize("command", ["install codex@0.163.0", "list --newest"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_npm_with_all_that_it_started(tmp_path: Path, command: str, number: signal.Signals) -> None:
    """The command ends with 130, nothing of npm is left running, and nothing of the release is installed."""
    fifo, npm = tmp_path / "fifo", tmp_path / "bin/npm"
    os.mkfifo(fifo)
    npm.parent.mkdir()
    npm.write_text(f"#!{sys.executable} -IS\n{NPM.format(fifo=str(fifo))}")
    npm.chmod(0o755)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    env = {"PATH": str(npm.parent), "HOME": str(tmp_path), "TURNGATE_CACHE_DIR": str(tmp_path / "cache")}
    argv = [str(Path(sys.executable).with_name("turngate")), "engines", *command.split()]
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert poll.poll(PATIENCE * 1000), "npm runs"
        assert os.read(reader, 1) == b"x"
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE)
    poll.register(reader, 0)
    assert poll.poll(0) == [(reader, select.POLLHUP)]
    os.close(reader)
    assert (process.returncode, b"Traceback" in told) == (130, False), told
    left = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []
    assert not [*(tmp_path / "cache").rglob("*.partial")]
