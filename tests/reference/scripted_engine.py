"""An engine that plays what a test wrote: any engine's output, under any engine's name.

It stands on PATH by a link for each engine. `<engine>.json` beside it holds its version, its help and its plays, one
a call (the last one again when they run out); a play is a list of steps:

- `["stdout", text]`, `["stderr", text]`: print
- `["meet"]`: say the pid through the fifo `meeting`, then wait until something comes through the fifo `go`
- `["env", name]`: print that environment variable's value on stderr
- `["hang"]`: wait for a signal
- `["signal", number]`, `["exit", code]`: end so (without either: exit code 0)

Every call is noted in `<engine>.calls`: argv, working directory, standard input.
"""

import json
import os
import signal
import sys
from pathlib import Path

ME = Path(sys.argv[0])


def main(argv: list[str]) -> int:
    """Play one call."""
    script = json.loads(ME.with_suffix(".json").read_text())
    calls = ME.with_suffix(".calls")
    past = calls.read_text().splitlines() if calls.exists() else []
    call = {"argv": argv, "cwd": str(Path.cwd()), "pwd": os.environ.get("PWD"), "stdin": sys.stdin.read()}
    with calls.open("a") as file:
        file.write(json.dumps(call) + "\n")
    if argv == ["--version"] or "--help" in argv:
        sys.stdout.write(f"{script['help' if '--help' in argv else 'version']}\n")
        return 0
    turns = [line for line in past if not {"--version", "--help"} & set(json.loads(line)["argv"])]
    plays = script["plays"]
    for step, *what in plays[min(len(turns), len(plays) - 1)]:
        match step:
            case "stdout" | "stderr":
                stream = getattr(sys, step)
                stream.write(what[0])
                stream.flush()
            case "env":
                sys.stderr.write(f"{what[0]}={os.environ.get(what[0])}\n")
            case "meet":
                ME.with_name("meeting").write_text(f"{os.getpid()}\n")
                ME.with_name("go").read_text()
            case "hang":
                signal.pause()
            case "signal":
                os.kill(os.getpid(), what[0])
            case "exit":
                return int(what[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
