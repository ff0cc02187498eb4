"""Watching the engine behind a wrapper: its environment and its home."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.probes import turns as t
from turngate_probes.harness.first_turn import EngineWatch
from turngate_probes.harness.sandbox import Sandbox, sandbox

ARGUMENTS = ("exec", "--json")
# says that it runs, and waits until its standard input ends
ENGINE = "print('runs', flush=True); input()"


@pytest.fixture(name="box")
def _box(tmp_path: Path) -> Iterator[Sandbox]:
    """Return a sandbox."""
    with sandbox(t.CODEX.hermetic, tmp_path, "main", keep=True) as box:
        yield box


@contextmanager
def running(env: Mapping[str, str], cwd: Path) -> Iterator[int]:
    """Run an engine with these variables in a directory while the block runs, and return its process id."""
    command = (sys.executable, "-c", ENGINE, *ARGUMENTS)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env, cwd=cwd) as process:
        assert process.stdout
        assert process.stdin
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def lost(box: Sandbox, env: Mapping[str, str], arguments: tuple[str, ...] = ARGUMENTS) -> list[str]:
    """Watch an engine with these variables, and list those that did not reach it."""
    wanted = {"HOME": str(box.home), "KEY": "k"}
    with running(env, box.work) as pid, EngineWatch(arguments, box) as watch:
        watch.started(pid)
        watch.look()
        return watch.lost(wanted)


def test_what_reaches_the_engine_is_not_lost(box: Sandbox) -> None:
    """An engine with all variables has lost none, also if another path leads to its home."""
    link = box.root / "link"
    link.symlink_to(box.home)
    assert lost(box, {"HOME": str(box.home), "KEY": "k"}) == []
    assert lost(box, {"HOME": str(link), "KEY": "k"}) == []


def test_what_does_not_reach_the_engine_is_named(box: Sandbox) -> None:
    """Missing and changed variables are named, and a home without the canary file."""
    assert lost(box, {"KEY": "k"}) == ["HOME"]
    assert lost(box, {"HOME": str(box.other), "KEY": "other"}) == ["KEY", "HOME"]


def test_an_engine_that_was_not_seen_has_lost_nothing(box: Sandbox) -> None:
    """Of a process without the engine's arguments nothing is concluded."""
    assert lost(box, {}, ("exec", "--other")) == []


def test_the_directory_is_that_of_the_sender(box: Sandbox) -> None:
    """The canary file decides; an engine that names the directory in its request works there."""
    silent = t.exchange(peer=0)
    with EngineWatch(ARGUMENTS, box) as watch:
        assert watch.strange_folder(silent) is None
        assert [path.name.startswith(".turngate-") for path in box.work.iterdir()] == [True]
    assert list(box.work.iterdir()) == []
