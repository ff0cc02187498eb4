import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTING = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
MAIN = "import sys; from turngate.entry import main; main()"


@pytest.mark.parametrize("module", ["click", "turngate_reference.conversations.cli.turns"])
def test_an_interrupt_during_the_imports_ends_quietly(module: str, tmp_path: Path) -> None:
    """Ctrl-C before the command runs exits with 130, without a traceback."""
    (tmp_path / "sitecustomize.py").write_text(f"""
import sys
class Interrupting:
    def find_spec(name, *_):
        if name == {module!r}:
            {INTERRUPTING}
sys.meta_path.insert(0, Interrupting)
""")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        (sys.executable, "-c", MAIN, "start", "codex", "hello"), check=False, capture_output=True, text=True, env=env
    )
    assert (ran.returncode, ran.stderr.strip()) == (128 + signal.SIGINT, "")


def test_the_exit_code_is_that_of_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    """A wrong command line exits with 2."""
    assert subprocess.run((sys.executable, "-c", MAIN, "nothing"), check=False).returncode == 2
    assert "No such command" in capfd.readouterr().err


def test_a_closed_stream_is_no_place_for_a_file(tmp_path: Path) -> None:
    """What is printed to a stream that the caller has closed is lost, and gets into no file that is opened later."""
    code = f"""
from turngate.files import open_streams
open_streams()
with open({str(tmp_path / "file")!r}, "w") as file:
    print("lost", flush=True)
    raise SystemExit(file.fileno())
"""
    ran = subprocess.run(("/bin/sh", "-c", '"$@" <&- >&-', "-", sys.executable, "-c", code), check=False)
    assert (ran.returncode > 2, (tmp_path / "file").read_text()) == (True, "")
