"""Processes of a dead program are ended by tag, or by pid and start time, never by pid only."""

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from turngate.process.family import Noted, end_orphans, start_time, tagged, tags_of
from turngate.process.sessions import TAG

# prints a line with its child's pid, then waits for a signal; the child ignores SIGTERM
PARENT = """
import os, signal, subprocess, sys
code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-ISc", code], stdout=subprocess.PIPE, env={})
child.stdout.readline()
print(child.pid, flush=True)
signal.pause()
"""


class Orphan:
    """A process with a child that has no tag and ignores SIGTERM."""

    def __init__(self, tag: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", PARENT],
            env=os.environ | {TAG: f"/outer/{tag}"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout
        self.child = psutil.Process(int(self.process.stdout.readline()))

    @property
    def alive(self) -> tuple[bool, bool]:
        """Whether the process runs, and whether its child does."""
        child = self.child.is_running() and self.child.status() != psutil.STATUS_ZOMBIE
        return self.process.poll() is None, child


@pytest.fixture(name="orphan")
def _orphan(tmp_path: object) -> Iterator[Orphan]:
    """Start an orphan, and end it after the test."""
    orphan = Orphan(f"tag-{os.getpid()}-{id(tmp_path)}")
    yield orphan
    for process in (orphan.process, orphan.child):
        if process.is_running() if isinstance(process, psutil.Process) else process.poll() is None:
            process.kill()
    orphan.process.wait()
    if orphan.process.stdout:
        orphan.process.stdout.close()


def tag_of(orphan: Orphan) -> str:
    """Return the tag of the process."""
    return psutil.Process(orphan.process.pid).environ()[TAG].rpartition("/")[2]


def test_what_carries_the_tag_is_ended_with_its_children(orphan: Orphan) -> None:
    """A process with the tag is ended, and so is its child without a tag that ignores SIGTERM."""
    assert end_orphans([Noted(tag_of(orphan))]) == ()
    assert orphan.alive == (False, False)


def test_a_noted_process_is_ended(orphan: Orphan) -> None:
    """A process without the tag is ended if pid and start time match."""
    pid = orphan.process.pid
    assert end_orphans([Noted("", pid, start_time(pid))]) == ()
    assert orphan.alive == (False, False)


def test_a_pid_alone_is_not_believed(orphan: Orphan) -> None:
    """A process with the same pid but another start time is not ended."""
    pid = orphan.process.pid
    assert end_orphans([Noted("", pid, start_time(pid) - 3600), Noted("", pid), Noted("no-such-tag")]) == ()
    assert orphan.alive == (True, True)


def test_what_carries_the_tag_is_found(orphan: Orphan) -> None:
    """A process is found by its own tag and by that of the outer run; its untagged child is not."""
    for tag in (tag_of(orphan), "outer"):
        assert orphan.process.pid in {process.pid for process in tagged({tag})}
    assert orphan.child.pid not in {process.pid for process in tagged({"outer", ""})}


def test_process_within_exec_is_looked_at_again() -> None:
    """An environment that is empty during exec is read again."""
    environments: list[dict[str, str]] = [{}, {}, {TAG: "/outer/mine"}]
    fake: Any = SimpleNamespace(environ=lambda: environments.pop(0), exe=lambda: "/bin/true")
    assert tags_of(fake) == {"outer", "mine"}


def test_a_process_that_is_ending_hides_nothing() -> None:
    """One that has lost its memory and is no zombie yet counts as gone, since it may have left another one."""
    fake: Any = SimpleNamespace(pid=7, environ=dict, exe=str, status=lambda: psutil.STATUS_RUNNING)
    with pytest.raises(psutil.NoSuchProcess):
        tags_of(fake)
    fake.status = lambda: psutil.STATUS_IDLE  # a kernel thread
    assert tags_of(fake) == set()
