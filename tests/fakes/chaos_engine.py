# ruff: noqa: PTH120, PTH123, PLC0415 - it starts thousands of times, and imports would take longest
"""A codex that does what each prompt's line `do: …` says, headless or sticky, well or badly.

Like the sticky fake it records each prompt in `prompts` next to the executable, one JSON text per line.
Headless words: `say TEXT`, `exit CODE`, `hang`; both kinds also know `fork TEXT` and `vanish TEXT` (a process outlives
the turn, with the run's environment or an empty one), `stubborn` (hang, deaf to SIGTERM) and `flood TEXT`. A headless
engine with the model `deaf` never reads its prompt. After `crash TEXT` and `crashlate TEXT` a sticky engine kills
itself, immediately or when the next message comes; a headless one answers as with `say TEXT`.
"""

import os
import sys
import time

SECONDS = 120


def main(version: str, help_page: str) -> int:
    """Run one call of the executable."""
    argv = sys.argv[1:]
    if argv == ["--version"] or "--help" in argv:
        sys.stdout.write(f"{version if argv == ['--version'] else help_page}\n")
        return 0
    if argv[:1] == ["outlive"]:
        time.sleep(SECONDS)
        return 0
    return _sticky() if argv[:1] == ["app-server"] else _headless(argv)


def act(word: str, *, stdout: bool = True) -> bool:
    """Do something that an engine should not; return False for an unknown word."""
    match word:
        case "fork" | "vanish":
            _outlive({} if word == "vanish" else dict(os.environ))
        case "stubborn":
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(SECONDS)
        case "flood":
            for _ in range(64):
                os.write(2, b"e" * 2**16 + b"\n")
                if stdout:
                    os.write(1, b"not JSON " * 2**10 + b"\n")
        case _:
            return False
    return True


def _outlive(environment: dict[str, str]) -> None:
    """Leave a process behind in a separate session, whose parent has ended."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execve(sys.executable, [sys.executable, "-IS", sys.argv[0], "outlive"], environment)


def _sticky() -> int:
    import re
    import signal
    from typing import Any

    from tests.fakes import sticky_engine

    class Chaotic(sticky_engine.FakeAppServer):
        """The sticky fake with the faults of the headless one."""

        crash = ""

        def thread(self, params: dict[str, Any]) -> str:
            return str(params.get("threadId") or _session([]))

        def hear(self, message: Any) -> None:
            if self.crash == "crashlate":
                os.kill(os.getpid(), signal.SIGKILL)
            super().hear(message)

        def end(self, text: str | None) -> None:
            super().end(text)
            if self.crash == "crash":
                os.kill(os.getpid(), signal.SIGKILL)

        def act(self, word: str, rest: str) -> str | None:
            if not act(word, stdout=False):
                return super().act(word, rest)
            return None

        def play(self, prompt: str) -> str | None:
            said = super().play(prompt)
            order = re.search(r"^do: (fork|vanish|flood|crash|crashlate) (.*)$", prompt, re.MULTILINE)
            self.crash = order[1] if order else ""
            return order[2] if order else said

    sticky_engine.SPEAKERS["app-server"] = Chaotic
    sticky_engine.main()
    return 0


def _headless(argv: list[str]) -> int:
    if "deaf" in argv:
        time.sleep(SECONDS)
    import json
    import re

    prompt = sys.stdin.read()
    # a kill may have interrupted the parent before it had written everything
    if (order := re.search(r"^do: (\w+) ?(.*)$", prompt, re.MULTILINE)) is None:
        return 1
    word, text = order.groups()
    with open(f"{os.path.dirname(sys.argv[0])}/prompts", "a") as prompts:
        prompts.write(json.dumps(prompt) + "\n")
    session = _session(argv)
    _put(json.dumps({"type": "thread.started", "thread_id": session}))
    if word == "exit":
        return int(text)
    if word == "hang":
        time.sleep(SECONDS)
    act(word)
    _put(json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": text}}))
    _put('{"type": "turn.completed"}')
    return 0


def _session(argv: list[str]) -> str:
    """Return the id of the resumed session, or of a new one, which is stored."""
    if "resume" in argv:
        return argv[argv.index("resume") + 1]
    with open("/dev/urandom", "rb") as source:
        digits = source.read(16).hex()
    session = f"{digits[:8]}-{digits[8:12]}-7{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
    folder = f"{os.environ['HOME']}/.codex/sessions/2026/01/01"
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
    open(f"{folder}/rollout-2026-01-01T00-00-00-{session}.jsonl", "w").close()
    return session


def _put(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
