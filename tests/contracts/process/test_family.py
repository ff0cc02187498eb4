import subprocess
from pathlib import Path

from turngate.process import ProcessTree, is_alive
from turngate.process.family import Family
from turngate.process.sessions import sessions

# its child leads a session of its own, and only the tag in its environment shows whose it is
WAITS = "echo $$; exec 3<>pipe; read line <&3"  # says its pid itself, so that it has its own arguments by then
LEAVES = f"mkfifo pipe; setsid sh -c '{WAITS}' & exec >&-"


def _line(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout
    assert process.stderr
    pid = int(process.stdout.readline())
    process.stdout.close()
    process.stderr.close()
    return pid


def test_what_outlived_the_main_process_is_described_and_ended(tmp_path: Path) -> None:
    """A process with the tag is ended, wherever it is; one without stays."""
    before = sessions()
    tree = ProcessTree("own")
    process = tree.start(("/bin/sh", "-c", LEAVES), tmp_path, {"PATH": "/usr/bin:/bin"}, stdin=False)
    pid = _line(process)
    tree.wait()
    other, _ = Family(process.pid, "other", before | {(process.pid, process.pid)}).settle(0)
    assert (other, is_alive(pid)) == ((), True)
    [left], _ = Family(process.pid, "own", before).settle(0)
    assert (left.pid, left.argv, left.survived) == (pid, ("sh", "-c", WAITS), False)
    assert not is_alive(pid)
    tree.reap()
