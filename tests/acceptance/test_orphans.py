"""Each command that runs engines ends what they leave, even if it has another parent, session and environment."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.fakes.daemon import left, noted, tidied
from tests.probes import engines

pytest_plugins = ["pytester"]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux can adopt processes; docs/promises.md says what remains elsewhere"
)
FAULT = "child=hidden"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Iterator[Path]:
    with tidied(tmp_path):
        yield tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        "probe {0} --clause version.readable",
        "probe {0} {1} --clause version.readable --jobs 2",
        "gate {0} --from {1} --clause version.readable",
        "contracts record {0} --case final --into there",
        "probe {0} --resume",
        "contracts new acme --path engine/codex",
    ],
    ids=lambda words: words.partition(" -")[0],
)
def test_a_command_ends_what_engines_left(folder: Path, words: str) -> None:
    """The engine leaves a process at each call; none lives when the command has ended."""
    targets = [f"codex={engines.install(folder / name, FAULT)}" for name in ("engine", "other")]
    (folder / "empty").mkdir()
    done = Command(folder, str(folder / "empty")).run(*words.format(*targets).split())
    assert noted(folder), done.err
    assert left(folder) == []


@pytest.mark.long
def test_only_the_engine_that_left_a_process_is_blamed(folder: Path) -> None:
    """Of two engines that are probed at the same time, one leaves processes: its clause fails alone."""
    guilty, other = engines.install(folder / "guilty", FAULT), engines.install(folder / "other")
    done = Command(folder, "/none").run(
        "probe", f"codex={guilty}", f"codex={other}", "--clause", "process.clean-exit", "--jobs", "4", "--json"
    )
    assert left(folder) == []
    results = {
        release["executable"]: clause["result"]
        for release in done.report["releases"]
        for clause in release["clauses"]
        if clause["id"] == "process.clean-exit"
    }
    assert results == {str(guilty): "fail", str(other): "pass"}


@pytest.mark.long
def test_the_pytest_plugin_ends_what_engines_left(folder: Path, pytester: pytest.Pytester) -> None:
    """A probe by pytest ends the process that an engine left, but no process that a test of the user left."""
    engine = engines.install(pytester.path / "engine", FAULT)
    pytester.makepyfile(
        "import os, pathlib, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.fakes import daemon\n"
        "def test_own(): daemon.leave(pathlib.Path('own'))\n"
    )
    args = ("-p", "no:cacheprovider", "--turngate-level", "static", "--turngate", f"codex={engine}")
    with tidied(pytester.path):
        result = pytester.runpytest_subprocess(*args)
        os.kill(int((pytester.path / "own").read_text()), signal.SIGKILL)
        result.assert_outcomes(passed=3)
        assert noted(pytester.path)
        assert left(pytester.path) == []
