# ruff: noqa: PLC0415, PTH109, PTH110, PTH120, PTH123 - it starts a thousand times, and imports would take longest
"""An engine that follows a script: it prints any engine's output under any engine's name.

It is no simulated engine because a script prints exact bytes, which may be no output of any release, and starts in a
quarter of the time.

`<engine>.plays` next to it, a Python literal, lists plays, one per call (the last one is repeated). A play is a list
of steps:

- `["stdout", text]`, `["stderr", text]`: print
- `["meet"]`: write the pid to the fifo `meeting`, then wait for input on the fifo `go`
- `["env", name]`: print that environment variable's value on stderr
- `["write", path, text]`, `["remove", path]`, `["link", target, path]`: change a file
- `["hop", fifo, kind…]`: leave a process that goes on in a new one every 10 ms, see `hopper`
- `["hang"]`: wait for a signal
- `["signal", number]`, `["exit", code]`: end this way (without either: exit code 0)

It tells the version in `<engine>.version` and the help in `<engine>.help`. Every other call is recorded in
`<engine>.calls`: argv, working directory, stdin. Without plays it is a codex that asks its model backend, see
`codex_turn`.
"""

import os
import sys

TYPE_CHECKING = False  # as of typing, which takes as long to import as Python to start
if TYPE_CHECKING:
    from typing import Any


def main(version: str, meeting: str) -> int:
    """Run one call; `version` and the fifo `meeting` are those of a codex without plays."""
    me = sys.argv[0]
    if not os.path.exists(f"{me}.plays"):
        from tests.fakes import codex_turn

        return codex_turn.main(sys.argv[1:], version, meeting)
    for word in ("version", "help"):
        if f"--{word}" in sys.argv[1:]:
            with open(f"{me}.{word}") as reported:
                sys.stdout.write(reported.read())
            return 0
    if guard := os.environ.get("TURNGATE_GUARD_PROOF"):
        if "own-files.cjs" not in os.environ["NODE_OPTIONS"]:
            return 42  # as one that got no input in time
        with open(guard) as pipe:
            pipe.read()
    plays = literal_in(f"{me}.plays")
    call = {"argv": sys.argv[1:], "cwd": os.getcwd(), "pwd": os.environ.get("PWD"), "stdin": sys.stdin.read()}
    with open(f"{me}.calls", "a+") as calls:
        calls.seek(0)
        past = len(calls.readlines())
        calls.write(f"{call!a}\n")
    return play(plays[min(past, len(plays) - 1)], os.path.dirname(me))


def play(steps: "list[Any]", folder: str) -> int:
    """Run the steps; return the exit code."""
    for step, *what in steps:
        match step:
            case "stdout" | "stderr":
                stream = getattr(sys, step)
                stream.write(what[0])
                stream.flush()
            case "env":
                sys.stderr.write(f"{what[0]}={os.environ.get(what[0])}\n")
            case "meet":
                with open(f"{folder}/meeting", "w") as meeting:
                    meeting.write(f"{os.getpid()}\n")
                with open(f"{folder}/go") as go:
                    go.read()
            case "write" | "remove" | "link":
                change_file(step, *what)
            case "hop":
                from tests.fakes import hopper

                hopper.leave(*what)
            case "hang":
                import signal

                signal.pause()
            case "signal":
                os.kill(os.getpid(), what[0])
            case "exit":
                return int(what[0])
    return 0


def change_file(step: str, first: str, second: str = "") -> None:
    """Change a file in the working directory."""
    from pathlib import Path

    if step == "write":
        Path(first).parent.mkdir(parents=True, exist_ok=True)
        Path(first).write_text(second)
    elif step == "remove":
        Path(first).unlink()
    else:
        Path(second).symlink_to(first)


def literal_in(file: str) -> "Any":
    """Read a Python literal."""
    with open(file) as text:
        return eval(text.read())
