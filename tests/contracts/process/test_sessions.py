import os
import subprocess
import sys

import pytest

from turngate.process import sessions
from turngate.process.sessions import is_child, pids, younger


@pytest.mark.parametrize("platform", [sys.platform, "another"])
def test_every_process_is_listed(platform: str) -> None:
    """This process is listed on every platform, with its session."""
    assert {os.getpid(), os.getppid()} <= {*pids(platform)}
    assert (os.getpid(), os.getsid(0)) in sessions.sessions()


def test_only_processes_of_new_sessions_may_descend() -> None:
    """A process that was started later is left out if its session is older."""
    before = sessions.sessions()
    started = [subprocess.Popen(("/bin/sleep", "600"), start_new_session=new) for new in (True, False)]
    try:
        new = younger(before)
    finally:
        for process in started:
            process.kill()
            process.wait()
    leader, other = (process.pid for process in started)
    assert (leader, leader) in new
    assert other not in {pid for pid, _ in new}


@pytest.mark.parametrize("removed", [False, True])
def test_children_are_told_from_other_processes(monkeypatch: pytest.MonkeyPatch, *, removed: bool) -> None:
    """A living child and an unreaped one are children; a reaped one and the parent are not."""
    if removed:  # macOS has it since Python 3.13
        monkeypatch.delattr(os, "waitid", raising=False)
    child = subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE)
    assert is_child(child.pid)
    child.kill()
    assert is_child(child.pid)
    child.communicate()
    assert not is_child(child.pid)
    assert not is_child(os.getppid())


ENDED = """
import os, subprocess
from turngate.process.sessions import has_ended_child
knows = hasattr(os, "waitid")  # macOS has it since Python 3.13; before, any child may have ended
child = subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE)
assert has_ended_child() is not knows
child.kill()
if knows:
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
assert has_ended_child()
assert child.wait() == -9
assert has_ended_child() is not knows
"""


def test_an_ended_child_is_seen_and_not_reaped() -> None:
    """Only a child that has ended counts, and it can still be reaped."""
    done = subprocess.run((sys.executable, "-c", ENDED), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
