"""Records of calls: what the executable notes while it runs, and what the judge reads afterwards.

Every call has a folder: `call.json`, written at its start; `running`, which the call locks as long as it runs;
`stdin`, `heard` (the parts of standard input), `signals` and `flooded` (the sizes of a flood's parts), which grow;
`closed`, which appears when standard input ends; `stdout`, `stderr` (its begin and its end) and `end.json`, written at
its end. A killed call has no `end.json`. The `stdout` of a process for several turns grows, too, because clients kill
it. Beside the calls are the `requests` to the model.
"""

import fcntl
import os
import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import count
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct

from turngate.decoding import decode
from turngate_probes.conform.message_forms import MessageForms, messages, strings
from turngate_probes.simulate.simulated_process import Kind

CALLS, RUNNING, REQUESTS = "calls", "running", "requests"
MAX_WORDS = 500
MAX_KEPT = 64 * 2**20
MAX_EXCERPT = 4096
_TOOL = "tools/call"  # has its parameters among its arguments
# requests with the directory of a session, in the protocols of processes for several turns
_OPENING = ("session/new", "session/load", "session/resume", "thread/start", "thread/resume", "thread/fork", _TOOL)
_TURN = "turn/start"  # may name another directory


class Started(Struct, frozen=True):
    """What is known when a call starts.

    `cwd` is the directory of a turn: an option may choose another directory than that of the process.
    `kind`: a turn, a question such as `--version`, a process for several turns, arguments that the engine refuses, or a
    command of the release that is not simulated. `problem` says what is refused, or isn't simulated.
    `resumed` and `prompt` are what the arguments ask for; the prompt is None if it comes on standard input.
    `chosen` is the id that the caller gives to a new session. `forgotten` are the options that a resumed session
    forgets; None: they aren't known. `forks`: it goes on in a new session. `newest_session` is the option that asks for
    the newest session instead of an id. `auto_approving` lists what lets the engine act without asking: arguments,
    variables, files. `unless_asked` are those that a client of a process for several turns can outrank: what it sends
    then has `makes_ask`. What has `lets_act` lets it act. `forms` are the forms of its messages.
    `stdin` is what kind of file standard input is. `at` is a monotonic time in seconds.
    """

    pid: int
    argv: tuple[str, ...]
    cwd: str
    env: tuple[str, ...]
    stdin: str
    at: float
    kind: Kind
    resumed: str | None = None
    prompt: str | None = None
    newest_session: str = ""
    problem: str = ""
    chosen: str | None = None
    forgotten: tuple[str, ...] | None = ()
    forks: bool = False
    auto_approving: tuple[str, ...] = ()
    unless_asked: tuple[str, ...] = ()
    makes_ask: str | None = None
    lets_act: str | None = None
    forms: MessageForms = MessageForms()


class HeardPart(Struct, frozen=True, array_like=True):
    """A part of standard input: where it ends, when it came, and the numbers of the other calls that then ran."""

    end: int
    at: float
    beside: tuple[int, ...]


_END = attrgetter("end")


class CallEnd(Struct, frozen=True):
    """How a call ended: its session id (None: it had no session), its exit code, and when."""

    handle: str | None
    exit_code: int
    at: float


class AskedModel(Struct, frozen=True):
    """A request to the model: its name, and the texts of the user that it holds."""

    model: str
    user_texts: tuple[str, ...]


class EngineCall(Struct, frozen=True):
    """A whole call, as the judge sees it; `ended` is None if it was killed, `stderr` is its begin and its end.

    flooded: How many bytes of a flood on stderr it has written.
    """

    number: int
    started: Started
    ended: CallEnd | None
    stdin: bytes
    stdin_closed: bool
    stdout: bytes
    stderr: str
    signals: tuple[str, ...]
    handle: str | None
    noted: tuple[str, ...] = ()
    flooded: int = 0
    heard: tuple[HeardPart, ...] = ()

    @property
    def directories(self) -> tuple[str, ...]:
        """Where the engine works: in a process for several turns, in the directories of its sessions.

        Those that a simulated engine noted, or else those that the client named when it opened them. A process that
        was sent nothing on standard input is reached otherwise, so nothing is known.
        """
        if self.started.kind != "process":
            return (self.started.cwd,)
        sent = [message for _, message in messages(self.stdin)]
        named, opened = list[str](), False
        for message in sent:
            method, params = str(message.get("method")), message.get("params")
            if method == _TOOL and isinstance(params, dict):
                params = params.get("arguments")
            if method not in (*_OPENING, _TURN) or not isinstance(params, dict) or "cwd" not in params:
                opened = opened and method != _TURN
                continue
            if method == _TURN and opened:
                named.pop()  # no turn ran where the session was opened
            named.append(os.path.realpath(str(params["cwd"])))
            opened = method in _OPENING
        return self.noted or tuple(named) or ((self.started.cwd,) if sent else ())

    @property
    def auto_approving(self) -> tuple[str, ...]:
        """What lets the engine act without asking: of the process, and of what a client sent to it."""
        started, sent = self.started, self.stdin.decode("utf-8", "replace")
        unasked = started.makes_ask and sent and not re.search(started.makes_ask, sent)
        acts = re.search(started.lets_act, sent) if started.lets_act else None
        return (
            *started.auto_approving,
            *(started.unless_asked if unasked else ()),
            *([f"what it was sent ({acts[0][-MAX_WORDS:]})"] if acts else []),
        )

    @property
    def last_line(self) -> str:
        """The last line on stderr that says something: about an error if there is one, and else one with words."""
        lines = [line.strip() for line in self.stderr.splitlines() if re.search(r"[^\W\d_]{2}", line)]
        last = next((line for line in reversed(lines) if re.match(r"(?i)\W*(error|fatal)\b", line)), "")
        return (last or (lines[-1] if lines else ""))[-MAX_WORDS:]

    def when(self, end: int) -> float:
        """When standard input had come up to a place."""
        part = bisect_left(self.heard, end, key=_END)
        return self.heard[part].at if part < len(self.heard) else self.started.at

    @property
    def text(self) -> str | None:
        """The prompt as the engine received it; None: there was none."""
        if self.started.kind in ("query", "unknown"):
            return None
        if self.started.prompt is not None:
            return self.started.prompt
        if self.started.kind == "process":
            return "\n".join(strings([message for _, message in messages(self.stdin)]))
        return self.stdin.decode("utf-8", "replace")


class CallRecord:
    """The folder of a call that is running."""

    def __init__(self, plan_folder: Path) -> None:
        """Claim the next number."""
        for number in count(1):
            self.folder = plan_folder / CALLS / f"{number:04}"
            try:
                self.folder.mkdir(parents=True)
            except FileExistsError:
                continue
            self.number = number
            return

    def begin(self, started: Started) -> None:
        """Note the start."""
        _write(self.folder / "call.json", msgspec.json.encode(started))
        # never closed: the lock ends with this process, also if that is killed, and no child gets it
        fcntl.lockf(os.open(self.folder / RUNNING, os.O_WRONLY | os.O_CREAT, 0o600), fcntl.LOCK_EX)

    def session(self, handle: str) -> None:
        """Note the session of the turn."""
        _write(self.folder / "session", handle.encode())

    def read(self, chunk: bytes) -> None:
        """Note a part of standard input; empty: it has ended."""
        if not chunk:
            (self.folder / "closed").touch()
            return
        part = HeardPart(self._grow("stdin", chunk), time.monotonic(), tuple(self._beside()))
        with (self.folder / "heard").open("ab") as file:
            file.write(msgspec.json.encode(part) + b"\n")

    def _beside(self) -> Iterator[int]:
        """Yield the numbers of the other calls that run."""
        for file in self.folder.parent.glob(f"*/{RUNNING}"):
            if file.parent == self.folder:
                continue  # to close it would end our lock
            with file.open() as other:
                try:
                    fcntl.lockf(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:
                    yield int(file.parent.name)

    def printed(self, chunk: bytes) -> None:
        """Note a part of standard output."""
        self._grow("stdout", chunk)

    def _grow(self, name: str, chunk: bytes) -> int:
        with (self.folder / name).open("ab") as file:
            if file.tell() < MAX_KEPT:
                file.write(chunk)
            return file.tell()

    def worked_in(self, cwd: str) -> None:
        """Note the directory of the session in which a turn begins."""
        _add_line(self.folder / "directories", cwd)

    def flooded(self, size: int) -> None:
        """Note that a part of a flood on stderr was written."""
        with (self.folder / "flooded").open("a", encoding="utf-8") as file:
            file.write(f"{size}\n")

    def signalled(self, name: str) -> None:
        """Note a signal; safe in a signal handler."""
        descriptor = os.open(self.folder / "signals", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{name}\n".encode())
        os.close(descriptor)

    def end(self, handle: str | None, exit_code: int, stdout: bytes, stderr: bytes) -> None:
        """Note the end."""
        (self.folder / "stdout").write_bytes(stdout[:MAX_KEPT])
        begin, end = stderr[:MAX_EXCERPT], stderr[MAX_EXCERPT:][-MAX_EXCERPT:]
        (self.folder / "stderr").write_bytes(begin + end)
        _write(self.folder / "end.json", msgspec.json.encode(CallEnd(handle, exit_code, time.monotonic())))


def calls(folder: Path) -> tuple[EngineCall, ...]:
    """Read the calls of a run, in the order of their starts, without those that were killed before they noted it."""
    folders = sorted((folder / CALLS).iterdir()) if (folder / CALLS).is_dir() else []
    return tuple(_call(item) for item in folders if (item / "call.json").exists())


def note_request(folder: Path, model: str, user_texts: Iterable[str]) -> None:
    """Note what a model is asked in a run."""
    _add_line(folder / REQUESTS, AskedModel(model, tuple(user_texts)))


def requests(folder: Path) -> tuple[AskedModel, ...]:
    """Read what the model was asked in a run, in order."""
    return tuple(decode(line, AskedModel) for line in _kept(folder / REQUESTS).splitlines())


def _call(folder: Path) -> EngineCall:
    ended = folder / "end.json"
    return EngineCall(
        number=int(folder.name),
        started=decode((folder / "call.json").read_bytes(), Started),
        ended=decode(ended.read_bytes(), CallEnd) if ended.exists() else None,
        stdin=_kept(folder / "stdin"),
        stdin_closed=(folder / "closed").exists(),
        stdout=_kept(folder / "stdout"),
        stderr=_kept(folder / "stderr").decode("utf-8", "replace"),
        signals=tuple(_kept(folder / "signals").decode().split()),
        handle=_kept(folder / "session").decode() or None,
        noted=tuple(decode(line, str) for line in _kept(folder / "directories").splitlines()),
        flooded=sum(map(int, _kept(folder / "flooded").split())),
        heard=tuple(sorted((decode(line, HeardPart) for line in _kept(folder / "heard").splitlines()), key=_END)),
    )


def _kept(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _add_line(path: Path, value: object) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(msgspec.json.encode(value) + b"\n")


def _write(path: Path, data: bytes) -> None:
    """Write a file that is either absent or whole."""
    partial = path.with_suffix(".part")
    partial.write_bytes(data)
    partial.replace(path)
