"""Programs that misbehave, one per verb: `unruly.py VERB [ARGUMENT]`.

Each program prints a line to stdout when it is ready; pids are decimal.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable


def say(text: object) -> None:
    """Write a line to standard output at once."""
    os.write(1, f"{text}\n".encode())


def wait() -> None:
    """Wait forever, and run the handler of a signal whenever it comes."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # a signal just before `signal.pause()` would be handled only after the next one
    signal.set_wakeup_fd(writing)
    while True:
        os.read(reading, 1)


def spawn(*verb: str, env: dict[str, str] | None = None, setsid: bool = False) -> int:
    """Start this file with another verb; pass on its first line and return its pid."""
    argv = [sys.executable, "-I", "-S", __file__, *verb]
    child = subprocess.Popen(argv, env=env, start_new_session=setsid, stderr=subprocess.PIPE)
    if child.stderr:
        child.stderr.readline()
    return child.pid


def idle() -> None:
    """Print its pid to stdout and a line to stderr, then keep running."""
    say(os.getpid())
    os.write(2, b"ready\n")
    wait()


def deaf() -> None:
    """Ignores SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    idle()


def polite() -> None:
    """Prints a last line on SIGTERM and exits with 3."""

    def bye(*_: object) -> None:
        say("bye")
        sys.exit(3)

    signal.signal(signal.SIGTERM, bye)
    idle()


def headless() -> None:
    """Ignores SIGTERM and ends its first thread while another runs, so that it looks like a zombie but isn't."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=threading.Event().wait).start()
    say(os.getpid())
    ctypes.CDLL(None).pthread_exit(None)


def double_fork() -> None:
    """Starts a grandchild in its own session and reaps the child between, as a daemon does."""
    child = os.fork()
    if not child:
        spawn("idle", setsid=True)
        os._exit(0)
    os.waitpid(child, 0)


STARTS: dict[str, Callable[[], object]] = {
    "child": lambda: spawn("idle"),
    "deaf-child": lambda: spawn("deaf"),
    "setsid-child": lambda: spawn("idle", setsid=True),
    "bare-child": lambda: spawn("idle", env={}),
    "bare-setsid-child": lambda: spawn("idle", env={}, setsid=True),
    "double-fork": double_fork,
    "warm-child": lambda: spawn("warm"),
}


def leave(kind: str) -> None:
    """Starts a process and exits without it."""
    STARTS[kind]()


def keep(kind: str) -> None:
    """Starts a process and keeps running."""
    STARTS[kind]()
    idle()


def late() -> None:
    """Exits before its child, which then ends by itself."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(reading)
        return
    os.close(writing)
    os.read(reading, 1)
    say("late")


def mute() -> None:
    """Closes its output and keeps running."""
    say("closing")
    os.close(1)
    os.close(2)
    wait()


def flood(megabytes: str) -> None:
    """Writes the given number of bytes to stdout."""
    for _ in range(int(megabytes)):
        rest = memoryview(b"x" * 2**20)
        while rest:
            rest = rest[os.write(1, rest) :]


def read() -> None:
    """Reads standard input to its end."""
    say("reading")
    sys.stdin.buffer.read()
    say("end of input")


def burn() -> None:
    """Uses 0.4 s of CPU time."""
    while time.process_time() < 0.4:
        pass


def warm() -> None:
    """Uses CPU time before it prints its pid and keeps running."""
    burn()
    idle()


def burn_in_child(after: str) -> None:
    """Lets a child use CPU time; then `reap` it, or `keep` it alive."""
    child = os.fork()
    if not child:
        burn()
        if after == "keep":
            say("burnt")
            wait()
        os._exit(0)
    os.waitpid(child, 0)


def die() -> None:
    """Kills itself with a signal."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    globals()[verb.replace("-", "_")](*arguments)
