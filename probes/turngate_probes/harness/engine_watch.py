"""Watches the processes of a turn: where the engine behind a wrapper runs, and with which variables."""

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.stub_model import Exchange

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5  # seconds between two looks


@dataclass(frozen=True, slots=True)
class _Seen:
    """The environment of a process, and whether its HOME is the sandbox's."""

    environment: Mapping[str, str]
    at_home: bool


class EngineWatch:
    """Watches the processes that get the engine's arguments, from the start of a turn to its end.

    Canary files mark the working directory and the home of the sandbox, because a container may know them by other
    paths, and may have other directories under the same paths.
    """

    def __init__(self, arguments: tuple[str, ...], sandbox: Sandbox) -> None:
        """Watch for these arguments; the canary files stay until the end."""
        self._arguments, self._sandbox = arguments, sandbox
        self._canary = f".turngate-{secrets.token_hex(8)}"
        self._main, self._over, self._thread = 0, threading.Event(), threading.Thread(target=self._follow, daemon=True)
        self._seen: dict[int, _Seen] = {}

    def __enter__(self) -> Self:
        for folder in (self._sandbox.work, self._sandbox.home):
            (folder / self._canary).touch()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for folder in (self._sandbox.work, self._sandbox.home):
            (folder / self._canary).unlink(missing_ok=True)

    def started(self, pid: int) -> None:
        """Take the id of the main process, and watch it until the end."""
        self._main = pid
        self._thread.start()

    def look(self) -> None:
        """Look at the running processes once."""
        for process in _family(self._main):
            with suppress(psutil.Error, OSError):
                if process.pid not in self._seen and not _contains(process.cmdline(), self._arguments):
                    continue
                if environment := process.environ():
                    home = environment.get("HOME")
                    at_home = home is not None and self._is_marked(process, home)
                    self._seen[process.pid] = _Seen(environment, at_home)

    def lost(self, wanted: Mapping[str, str]) -> list[str]:
        """List the variables that did not reach the innermost process with the engine's arguments; none if unseen."""
        if not self._seen:
            return []
        engine = list(self._seen.values())[-1]
        lost = [name for name, value in wanted.items() if engine.environment.get(name) != value and name != "HOME"]
        return sorted(lost) + ([] if engine.at_home else ["HOME"])

    def strange_folder(self, request: Exchange) -> str | None:
        """Return the working directory of the process that sent a request, if the engine works there and not in ours.

        An engine that names our directory in its request works there, if the directory of that path is ours.
        """
        for process in _senders(self._main, request.peer):
            with suppress(psutil.Error, OSError):
                folder, work = process.cwd(), str(self._sandbox.work)
                told = work.encode() in request.body and self._is_marked(process, work)
                return None if told or self._is_marked(process) else folder
        return None

    def _is_marked(self, process: psutil.Process, path: str | None = None) -> bool:
        """Return whether a process sees a canary file below a path, or else in its working directory."""
        proc = Path(f"/proc/{process.pid}")
        if not proc.exists():  # not on Linux, where no process has its own view of the files
            folder = Path(path or process.cwd())
        elif path is None:
            folder = proc / "cwd"
        else:
            folder = proc / "root" / path.lstrip("/")
        return (folder / self._canary).exists()

    def _follow(self) -> None:
        pause = FIRST_PAUSE
        while not self._over.wait(pause):
            self.look()
            pause = min(pause * 1.1, LONGEST_PAUSE)


def _family(main: int) -> list[psutil.Process]:
    """Return a process and its descendants."""
    with suppress(psutil.Error):
        process = psutil.Process(main)
        return [process, *process.children(recursive=True)]
    return []


def _senders(main: int, port: int) -> Iterator[psutil.Process]:
    """Return the process that connects from a local port: a descendant of `main`, or one that can be seen anyway."""
    for process in _family(main):
        with suppress(psutil.Error):
            if any(tuple(row.laddr)[1:2] == (port,) for row in process.net_connections("tcp")):
                yield process
    with suppress(psutil.Error):
        for row in psutil.net_connections("tcp"):
            if row.pid and tuple(row.laddr)[1:2] == (port,):
                yield psutil.Process(row.pid)


def _contains(argv: list[str], arguments: tuple[str, ...]) -> bool:
    """Return whether an argv ends with these arguments."""
    return bool(arguments) and tuple(argv[-len(arguments) :]) == arguments
