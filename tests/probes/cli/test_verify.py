import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes import engines
from turngate import cli

pytestmark = pytest.mark.long

TURNGATE = str(Path(sys.executable).with_name("turngate"))


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate cache for each test."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "fault, code, word", [("", 0, "proven"), ("forgets", 1, "refuted"), ("answers-itself", 2, "unproven")]
)
def test_the_command_ends_with_what_it_found(
    tmp_path: Path, fault: str, code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code reflects the result, which is printed as one line or as JSON."""
    executable = engines.install(tmp_path / "bin", fault)
    assert cli.run(["verify", f"codex={executable}"]) == code
    line = capsys.readouterr().out
    assert line.startswith(f"codex@0.169.0 {word}: ")
    assert cli.run(["verify", "--json", f"codex={executable}"]) == code
    reported = json.loads(capsys.readouterr().out)
    assert (reported.keys(), reported["status"]) == ({"status", "detail"}, word)


@pytest.mark.parametrize("how", ["signal", "eof"])
def test_the_command_can_be_stopped(tmp_path: Path, how: str) -> None:
    """A signal stops the command and its engine, and so does the end of stdin with --until-eof."""
    executable = engines.install(tmp_path / "bin", "meets-tester")
    os.mkfifo(tmp_path / "bin" / "meeting")
    command = (TURNGATE, "verify", "--until-eof", f"codex={executable}")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        pid = int((tmp_path / "bin" / "meeting").read_text())
        if how == "eof":
            out, err = process.communicate()
        else:
            process.send_signal(signal.SIGTERM)
            process.wait()
            assert process.stdout
            assert process.stderr
            out, err = process.stdout.read(), process.stderr.read()
    assert (process.returncode, out, err) == (cli.INTERRUPTED, b"", b"")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
