"""The first turn of a release, which every other case awaits: does the executable run its engine in the sandbox?

The processes of the turn show where the engine behind a wrapper runs, and with which variables. The Node.js that the
npm package asks for may say why the executable doesn't start.
"""

import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
from msgspec import Struct, field

from turngate.contract.clauses import Reason
from turngate_probes.harness.interrupt import CaseStoppedError, Obstacle
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.registry_hosts import refused_registry
from turngate_probes.harness.resource_usage import node_version
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.stub_model import Exchange

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.5  # seconds between two looks
_LARGEST = 1 << 20  # bytes of a package.json
PASS_ON = "a wrapper must pass on the working directory, HOME and every variable: see Wrappers in the documentation"
INSTALL = "install the engine and pass its own command, or run the wrapper offline: see Wrappers in the documentation"
UPDATE = "update Node.js on PATH, or probe an older release"


class _Reached(Struct, frozen=True):
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
        self._reached: dict[int, _Reached] = {}

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
                if process.pid not in self._reached and not _contains(process.cmdline(), self._arguments):
                    continue
                if environment := process.environ():
                    home = environment.get("HOME")
                    at_home = home is not None and self._is_marked(process, home)
                    self._reached[process.pid] = _Reached(environment, at_home)

    def lost(self, wanted: Mapping[str, str]) -> list[str]:
        """List the variables that did not reach the innermost process with the engine's arguments; none if unseen."""
        if not self._reached:
            return []
        engine = list(self._reached.values())[-1]
        lost = [name for name, value in wanted.items() if engine.environment.get(name) != value and name != "HOME"]
        return sorted(lost) + ([] if engine.at_home else ["HOME"])

    def strange_folder(self, request: Exchange) -> str | None:
        """Return the working directory of the process that sent a request, if the engine works there and not in ours.

        An engine that names our directory in its request works there, if the directory of that path is ours.
        """
        for process in _senders(self._main, request.peer):
            with suppress(psutil.Error, OSError):
                folder, work = process.cwd(), str(self._sandbox.work)
                reported = work.encode() in request.body and self._is_marked(process, work)
                return None if reported or self._is_marked(process) else folder
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


def newer_node_needed(executable: Path) -> str | None:
    """Return the version that the executable's package asks for if the Node.js on PATH is older, such as 22.19.0.

    None also if there is no package or no Node.js, or if the package doesn't ask for a version with `>=`. Packages
    that ask for a newer version than they need are common, so a release may run all the same.
    """
    wanted, here = re.fullmatch(r"\s*>=\s*v?(\d+(?:\.\d+)*)\s*", _asked(executable)), node_version()
    if wanted is None or here is None or not (found := re.match(r"v(\d+(?:\.\d+)*)", here)):
        return None
    return wanted[1] if _numbers(found[1]) < _numbers(wanted[1]) else None


def _asked(executable: Path) -> str:
    """Return `engines.node` of the nearest package.json at or above the executable, which may be a link."""
    for folder in executable.resolve().parents:
        manifest = folder / "package.json"
        if not manifest.is_file():
            continue
        try:
            with manifest.open("rb") as file:
                data = json.loads(file.read(_LARGEST))
            return str(data["engines"]["node"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split("."))


class FirstTurn(Struct):
    """Holds the other cases back until the first turn has reached the model, and stops them if it can't.

    Safe for threads.
    """

    _obstacle: Obstacle | None = None
    _known: threading.Event = field(default_factory=threading.Event)

    @property
    def is_known(self) -> bool:
        """Whether the first turn has shown what it can."""
        return self._known.is_set()

    def tell(self, obstacle: Obstacle | None) -> None:
        """Say what keeps the other cases from running (None: nothing); only the first call counts."""
        if not self._known.is_set():
            self._obstacle = obstacle
            self._known.set()

    def check(self, level: str = "hermetic") -> None:
        """Wait until the first turn is known; CaseStoppedError if it keeps a case of this level from running.

        Pages can be tested although the engine sends no request, but nothing can in a wrapper that breaks the sandbox.
        """
        self._known.wait()
        if self._obstacle and (level != "static" or self._obstacle.reason):
            raise CaseStoppedError.of(self._obstacle)


class FirstTurnCheck:
    """Observes the first turn of a release: `argv` starts its executable, `nonce` is in its prompt.

    `wanted` are the variables that the engine must get.
    """

    def __init__(
        self, first: FirstTurn, sandbox: Sandbox, argv: tuple[str, ...], nonce: str, wanted: Mapping[str, str]
    ) -> None:
        self.first, self.sandbox, self.argv, self.nonce, self.wanted = first, sandbox, argv, nonce, wanted
        self.watch = EngineWatch(argv[1:], sandbox)

    def requested(self, request: Exchange, stop: Callable[[], None]) -> None:
        """Let the other cases run once the engine has sent its prompt from the right directory, else `stop` it."""
        if self.nonce not in request.nonces or self.first.is_known:
            return
        folder = self.watch.strange_folder(request)
        if folder is None:
            self.first.tell(None)
            return
        what = f"the executable runs its engine in {folder}, not in the directory in which it was started"
        self.first.tell(Obstacle(what, Reason.WRAPPER, hint=PASS_ON))
        stop()

    def ended(self, turn: Turn) -> None:
        """Take the end of the turn; CaseStoppedError if the executable can't run its engine in the sandbox."""
        if not self.first.is_known:
            self.first.tell(None if turn.requests else self._obstacle(turn))
        self.first.check("static")

    def _obstacle(self, turn: Turn) -> Obstacle:
        """Return what kept the engine from sending a request: the environment only if something shows that."""
        hosts = [tried.host for tried in self.sandbox.backend.egress()]
        if host := refused_registry(hosts, turn.stdout, turn.stderr):
            what = f"the executable needs the package registry {host}, which can't be reached from a probe"
            return Obstacle(what, Reason.WRAPPER, hint=INSTALL)
        if lost := self.watch.lost(self.wanted):
            what = f"the executable doesn't pass on {', '.join(lost)}, so its engine can't find the model"
            return Obstacle(what, Reason.WRAPPER, hint=PASS_ON)
        reported = turn.reading.failures or tuple(turn.stderr.decode("utf-8", "replace").strip().splitlines()[-1:])
        if least := newer_node_needed(Path(self.argv[0])):
            what = f"the release needs Node.js {least} or newer, and doesn't start with {node_version()}"
            return Obstacle(": ".join((what, *reported[:1])), Reason.NO_EXECUTABLE, hint=UPDATE)
        how = "it hung" if turn.hung else ": ".join([f"exit code {turn.exit_code}", *reported[:1]])
        return Obstacle(f"{turn.name} sent no request to the model ({how})", by_engine=True, at_first=True)
