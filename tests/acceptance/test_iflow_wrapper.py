"""The wrapper in docs/iflow.md around a stand-in for the community edition."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines

PAGE = Path(__file__).parents[2] / "docs" / "iflow.md"
LOADER = """
console.log("[runtime] Loading preamble...");
console.log("[loader] Loaded 2/2 modules (0 errors)");
console.log("said by a command");
process.stdin.setEncoding("utf8");
process.stdin.on("data", (text) => process.stdout.write("[runtime] " + text));
process.stdin.on("end", () => {
  process.stderr.write("<Execution Info>\\n");
  console.error("Error shutting down SDK: Error: no exporter");
  console.error("    at shutdown");
  process.exitCode = 7;
});
"""


@pytest.fixture(name="wrapper")
def _wrapper(tmp_path: Path) -> Path:
    """Install the wrapper from the page next to a loader."""
    (code,) = re.findall(r"```js\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "iflow-ce-dev.cjs").write_text(LOADER)
    path = tmp_path / "iflow"
    path.write_text(code)
    path.chmod(0o755)
    return path


def test_what_the_loader_adds_is_stripped_and_all_else_comes_through(wrapper: Path) -> None:
    """Lines and stack trace of the loader are removed; the exit code and the answer, even a similar one, are not."""
    done = subprocess.run([wrapper], input=b"an answer\n", capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (b"said by a command\n[runtime] an answer\n", b"<Execution Info>\n")
    assert done.returncode == 7


def test_streams_stay_live_and_signals_reach_the_program(wrapper: Path) -> None:
    """Each line is answered while stdin is open, as ACP requires, and a signal ends the program itself."""
    with subprocess.Popen([wrapper], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"said by a command\n"
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == b"[runtime] " + line
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM
