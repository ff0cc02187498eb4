import os
import subprocess
import sys
from pathlib import Path

import pytest

from turngate.process import sessions
from turngate.process.sessions import GONE, is_child, is_unrelated, pids, younger

TELLS = sys.platform == "linux"  # elsewhere every process may be of the tree


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


def test_a_process_that_has_just_ended_may_have_left_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends while all are listed stays in the list, as one of which nothing is known."""
    with subprocess.Popen(("/bin/true",)) as gone:
        pass
    before = sessions.sessions()
    monkeypatch.setattr(sessions, "pids", lambda: [os.getpid(), gone.pid])
    assert younger(before) == {(gone.pid, GONE)}
    assert younger(before | {(1, GONE)}) == {(gone.pid, GONE)}
    assert not is_unrelated((gone.pid, GONE), leader=-1, tag="")


def test_processes_of_other_programs_are_unrelated() -> None:
    """A process with an environment without the tag is unrelated, unless it is in the session of the tree."""
    other = (os.getppid(), os.getsid(os.getppid()))
    assert is_unrelated(other, leader=-1, tag="no such tag") is TELLS
    assert not is_unrelated(other, leader=other[1], tag="no such tag")
    assert not is_unrelated(other, leader=-1, tag="no such tag", platform="darwin")


@pytest.mark.parametrize(
    "env, adopted, unrelated",
    [
        ({"TURNGATE_RUN": "/outer/inner"}, False, False),
        ({"TURNGATE_RUN": "/outer"}, False, True),
        ({"TURNGATE_RUN": "/outer"}, True, False),
        ({}, False, False),
    ],
)
def test_processes_that_may_be_of_the_tree_are_not_unrelated(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, adopted: bool, unrelated: bool
) -> None:
    """The tag, adoption, an empty environment, and the end of a process are reasons to look closer."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(("/bin/cat",), bufsize=0, stdin=pipe, stdout=pipe, start_new_session=True, env=env)
    assert child.stdin
    assert child.stdout
    child.stdin.write(b"x")
    assert child.stdout.read(1) == b"x"  # now it has its environment
    with monkeypatch.context() as patch:
        if not adopted:
            patch.setattr(os, "getpid", lambda: 1)
        assert is_unrelated((child.pid, child.pid), leader=-1, tag="inner") is (TELLS and unrelated)
    child.communicate()
    assert not is_unrelated((child.pid, child.pid), leader=-1, tag="inner")


def test_processes_of_other_users_are_unrelated_unless_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that can't be read has no tag."""
    read = Path.read_bytes

    def refusing(path: Path) -> bytes:
        if path.name == "environ":
            raise PermissionError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    assert is_unrelated((os.getpid(), os.getsid(0)), leader=-1, tag="x") is TELLS
    with subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE) as child:
        assert not is_unrelated((child.pid, child.pid), leader=-1, tag="x")


def test_the_trees_of_other_runs_are_unrelated(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the session of another run's main process belongs to that run."""
    assert not is_unrelated((os.getpid(), os.getsid(0)), leader=-1, tag="", platform="linux")
    monkeypatch.setattr(sessions, "LEADERS", {os.getsid(0)})
    assert is_unrelated((os.getpid(), os.getsid(0)), leader=-1, tag="", platform="linux")


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
