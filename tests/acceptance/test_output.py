"""What each command does when its output can't be written, with real processes and real pipes."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.command import REAL, Command
from tests.fakes.executables import HEADLESS
from tests.probes import engines, fake_npm
from turngate.contract import load
from turngate_probes.simulate.simulated_process import install

pytestmark = [pytest.mark.long, pytest.mark.nightly]

COMMANDS = (
    "--help",
    "--version",
    "probe --help",
    "contracts check",
    "engines list",
    "engines list --json",
    "engines install codex@0.163.0",
    "probe codex=fake/codex --level static",
    "probe codex=fake/codex --level static --json",
    "probe codex=fake/codex --level static -q",
    "gate codex=fake/codex --from codex=other/codex --clause version.readable",
    "gate codex=fake/codex --from codex=other/codex --clause version.readable --json",
    "matrix codex --versions latest:1 --level static",
    "matrix codex --versions latest:1 --level static --json",
    "matrix codex --versions latest:1 --plan github",
    "bisect codex version.readable",
    "bisect codex version.readable --json",
    "report report.json",
    "report report.json --json",
    "report report.json --verbose",
    "contracts record codex=fake/codex --case main --into recordings",
    "probe codex=fake/codex --resume",
    "probe codex=fake/codex --resume --json",
    "serve --port 0 --verify off",
    "simulate codex@0.169.0 --version",
    "simulate codex@0.169.0 --install more",
    "start codex hello",
    "start codex --json hello",
    "handles",
    "handles --json",
    "handles show HANDLE",
    "handles prune --older-than 0h",
    "resume HANDLE hello",
    "resume --json HANDLE hello",
)

FULL = "Error: can't write the output: No space left on device"


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with a registry, engines, a report and a conversation."""
    folder = tmp_path_factory.mktemp("output")
    npm = install(load.contract("codex").at("0.169.0"), folder / "bin").with_name("npm")
    npm.write_text(f"#!{sys.executable} -IS\n{Path(fake_npm.__file__).read_text()}")
    npm.chmod(0o755)
    for name, text in (("engine", HEADLESS), ("without", ""), ("published.json", '["0.162.0", "0.163.0"]')):
        (folder / name).write_text(text)
    for name in ("fake", "other"):
        engines.install(folder / name)
    command = Command(folder, env=tuple(environment(folder, folder / "data").items()))
    assert command.run("probe", "codex=fake/codex", "--level", "static", "--report", "report.json").code == 0
    assert command.run("start", "codex", "hello").code == 0
    return folder


def environment(folder: Path, data: Path) -> dict[str, str]:
    """Return the environment of each command."""
    return {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "HOME": str(folder),
        "NPM_CONFIG_REGISTRY": str(folder),
        "TURNGATE_CACHE_DIR": str(folder / "cache"),
        "TURNGATE_DATA_DIR": str(data),
    }


def ended(folder: Path, command: str, place: Path, stdout: int, stderr: int = subprocess.PIPE) -> tuple[int, str]:
    """Run a command on a copy of the conversations with this stdout; return exit code and stderr."""
    shutil.copytree(folder / "data", place / "data")
    (record,) = (folder / "data" / "handles").glob("*.json")
    args = command.replace("HANDLE", record.stem).split()
    done = subprocess.run(
        (sys.executable, "-c", REAL, *args),
        cwd=folder,
        env=environment(folder, place / "data"),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
        timeout=120,
    )
    for stream in filter(lambda stream: stream >= 0, (stdout, stderr)):
        os.close(stream)
    return done.returncode, done.stderr or ""


def closed_pipe() -> int:
    """Return the writing end of a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_pipe_ends_with_141(folder: Path, command: str, tmp_path: Path) -> None:
    """A closed pipe exits with 141 and no traceback, and not with 1, which means "broken"."""
    code, said = ended(folder, command, tmp_path, closed_pipe())
    assert (code, "Traceback" in said, "Exception" in said) == (141, False, False), said


@pytest.mark.parametrize(
    "command",
    [
        "probe codex=fake/codex --level static",
        "gate codex=fake/codex --from codex=other/codex --clause version.readable",
        "matrix codex --versions latest:1 --level static --results fresh",
        "report report.json --json",
    ],
)
def test_a_closed_pipe_costs_no_report(folder: Path, command: str, tmp_path: Path) -> None:
    """Whoever reads only the first lines gets whole reports all the same."""
    report, page = tmp_path / "a.json", tmp_path / "a.html"
    asked = f"{command} --report {report} --report {page}".replace("fresh", str(tmp_path / "results"))
    code, said = ended(folder, asked, tmp_path, closed_pipe())
    assert (code, "Error" in said) == (141, False), said
    assert json.loads(report.read_text())["exit_code"] == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_ends_with_2(folder: Path, command: str, tmp_path: Path) -> None:
    """A full disk exits with 2 and a message of one line."""
    code, said = ended(folder, command, tmp_path, os.open("/dev/full", os.O_WRONLY))
    assert (code, said.count("Error"), said.splitlines()[-1]) == (2, 1, FULL), said


@pytest.mark.parametrize("stream, code", [(closed_pipe, 141), (lambda: os.open("/dev/full", os.O_WRONLY), 2)])
@pytest.mark.parametrize("command", ["no-command", "probe nothing", "probe codex=fake/codex --level static --json"])
def test_standard_error_is_output_too(
    folder: Path, command: str, stream: Callable[[], int], code: int, tmp_path: Path
) -> None:
    """If stderr can't be written, the exit code is the same as for stdout."""
    assert ended(folder, command, tmp_path, subprocess.DEVNULL, stream()) == (code, "")


@pytest.mark.parametrize(
    "file, option, told",
    [
        ("full.json", "--report full.json", r"can't write the report \S*full\.json: No space left on device"),
        ("full.html", "--report full.html", r"can't write the report \S*full\.html: No space left on device"),
        ("probe.ndjson", "--keep kept", r"the disk of \S*kept is full"),
    ],
)
def test_a_file_that_can_not_be_written_ends_with_2(
    folder: Path, file: str, option: str, told: str, tmp_path: Path
) -> None:
    """The error names the file, or the disk that is full, and nothing goes to stdout."""
    (tmp_path / "kept").mkdir()
    for name in (file, f"kept/{file}"):
        (tmp_path / name).symlink_to("/dev/full")
    args = option.replace("full.", f"{tmp_path}/full.").replace("kept", f"{tmp_path}/kept")
    code, said = ended(folder, f"probe codex=fake/codex --level static {args}", tmp_path, subprocess.DEVNULL)
    assert (code, said.count("Error")) == (2, 1), said
    assert re.search(told, said), said


def test_a_reader_of_one_line_gets_it(folder: Path) -> None:
    """`turngate report report.json | head -1` prints its first line."""
    script = f"{sys.executable} -c '{REAL}' report report.json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ("bash", "-c", script),
        cwd=folder,
        env=environment(folder, folder / "data"),
        capture_output=True,
        text=True,
        check=True,
    )
    line, code = done.stdout.splitlines()
    assert (bool(line), done.stderr) == (True, "")
    assert code in {"0", "141"}  # 0 if everything was written before head closed the pipe
