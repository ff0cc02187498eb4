"""The reference server, or another one, as a process: started, reached at the address that it prints, killed, ended.

A case talks to it like any client, and its requests and responses are recorded.
"""

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from turngate import Ended, ProcessOutcome, ProcessRequest, Stop, TurngateError
from turngate.files import overlay_options, read_own
from turngate.process.execution import run
from turngate.sanitize import bounded
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt, InterruptedCaseError
from turngate_probes.harness.observations import CommandOutput, ServerCall

READY_WITHIN = 60.0
SLOTS = 2
_LONGEST_TOKEN = 4097
_ADDRESS = re.compile(rb"serves (?P<url>http://\S+)")
_ANY_ADDRESS = re.compile(rb"(?P<url>http://(?:127\.0\.0\.1|localhost|\[::1\]):\d+)(?!\d)(?=.)", re.DOTALL)
_CODE = re.compile(rb"(?<=code=)\S+")
_EXCERPT = 500
_SERVER = re.compile(rb"server (?P<pid>\d+)\n")
# outlives the server, so that the server's end does not end the process tree of its engines
_BEHIND = ("/bin/sh", "-c", '"$@" & echo "server $!"; wait; exec tail -f /dev/null', "sh")
# with the current interpreter, because its `turngate` may not be on PATH
_COMMAND = (sys.executable, "-P", "-c", "from turngate.entry import main; main()")
TIMEOUT = 30.0
FAILED = 500


def request(
    folder: Path,
    workspaces: Path,
    env: Mapping[str, str],
    pass_env: Iterable[str],
    *,
    behind: bool = False,
    verify: str = "off",
    unsafe: str | None = None,
) -> ProcessRequest:
    """Return the server's command: its data is below `folder`; `pass_env` are names of extra variables for engines.

    With `behind`, a launcher outlives it, so that killing it leaves its engines running until this is closed. It
    verifies the engine only if `verify` says when, because the clauses test whether it resumes. `unsafe` is an engine
    that it runs even if the contract declares that nothing keeps it from acting unasked.
    """
    names = [word for name in sorted(pass_env) for word in ("--pass-env", name)]
    places = ("--data-dir", str(folder), "--workspace-root", str(workspaces))
    options = ("--port", "0", "--slots", str(SLOTS), "--verify", verify)
    trusted = ("--allow-unsafe", unsafe) if unsafe else ()
    behind_it = _BEHIND if behind else ()
    command = (*behind_it, *_COMMAND, *overlay_options(), "serve", *options, *places, *trusted, *names)
    return ProcessRequest(command, workspaces, env, timeout=float("inf"))


def other_request(command: tuple[str, ...], folder: Path, env: Mapping[str, str]) -> ProcessRequest:
    """Return the command of a server that is not the reference server, in a folder in which it keeps its data.

    PORT asks it for any free port.
    """
    return ProcessRequest(command, folder, {**env, "PORT": "0"}, timeout=float("inf"))


def read_token(folder: Path) -> str:
    """Return the token that a server with its data in `folder` made; CaseStoppedError if it made none."""
    try:
        return read_own(folder / "token", _LONGEST_TOKEN, secret=True).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise CaseStoppedError(f"the token of the server can't be read: {error}") from error


class ServerProcess:
    """A running server process, which serves at `url`; every process below it ends with it."""

    def __init__(self, asked: ProcessRequest, interrupt: Interrupt, name: str, *, is_other: bool = False) -> None:
        """Run the server `asked` for once entered; `name` is the name of the page with its output.

        `is_other`: it is not the reference server, and prints its address in words of its own, on either stream.
        """
        self._asked, self._interrupt, self._name, self._is_other = asked, interrupt, name, is_other
        self._printed, self._started = bytearray(), threading.Event()
        self._pid, self.url = 0, ""
        self._stack = ExitStack()
        self._outcome: ProcessOutcome | None = None
        self._failed: TurngateError | None = None

    def __enter__(self) -> Self:
        """Start it and wait until it serves; CaseStoppedError if it does not."""
        stop = self._stack.enter_context(self._interrupt.scope())
        self._thread = threading.Thread(target=self._run, args=(stop,), name="turngate-serve", daemon=True)
        self._stack.callback(self._thread.join)
        self._stack.callback(stop.set)
        self._thread.start()
        self._started.wait(READY_WITHIN)
        if not self.url:
            self._stack.close()
            if self._interrupt.is_set():
                raise InterruptedCaseError
            raise CaseStoppedError(f"the server did not start: {self._last_words()}", by_engine=self._is_other)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it, and every engine that it runs."""
        self._stack.close()

    def kill(self) -> None:
        """Kill it like a crash; return when it is gone, or immediately behind a launcher."""
        behind = _SERVER.search(self._printed)
        os.kill(int(behind["pid"]) if behind else self._pid, signal.SIGKILL)
        if not behind:
            self._thread.join()

    def page(self) -> CommandOutput:
        """Return the output of a server that has ended, without the code that logs a browser in."""
        done = self._outcome
        streams = (done.stdout, done.stderr) if done else (b"", b"")
        code, ended, seconds = (done.exit_code, done.ended, done.cpu_seconds) if done else (None, Ended.STOPPED, 0.0)
        stdout, stderr = (_CODE.sub(b"<code>", stream) for stream in streams)
        return CommandOutput(self._name, self._asked.argv, code, ended, stdout, stderr, seconds)

    def _run(self, stop: Stop) -> None:
        try:
            self._outcome = run(self._asked, stop=stop, on_output=self._heard, on_start=self._noted)
        except TurngateError as failed:
            self._failed = failed
        finally:
            self._started.set()

    def _noted(self, pid: int) -> None:
        self._pid = pid

    def _heard(self, stream: str, chunk: bytes) -> None:
        if self.url or (stream != "stdout" and not self._is_other):
            return
        self._printed += chunk
        if address := (_ANY_ADDRESS if self._is_other else _ADDRESS).search(self._printed):
            self.url = address["url"].decode()
            self._started.set()

    def _last_words(self) -> str:
        if self._failed is not None:
            return str(self._failed)
        if self._outcome is None or self._outcome.ended is not Ended.EXIT:
            return f"it printed no address within {READY_WITHIN:.0f} s"
        stderr = self._outcome.stderr.decode("utf-8", "replace").strip()
        return f"exit code {self._outcome.exit_code}: {bounded(stderr, _EXCERPT)}"


class CaseClient:
    """Sends requests with a token to the server at `url`.

    Safe for threads, because each request uses a separate connection.
    """

    def __init__(self, url: str, token: str, note: Callable[[ServerCall], None]) -> None:
        """Send requests to `url`, without a token if it is empty; `note` gets those that have a name, but never it."""
        self._address = urlsplit(url).netloc
        self._authorization = {"Authorization": f"Bearer {token}"} if token else {}
        self._is_other = not token
        self._note = note

    def get(self, path: str, name: str = "") -> ServerCall:
        """GET a path; recorded if the request has a name."""
        return self._send(name, "GET", path, None, {})

    def post(self, path: str, body: Any, name: str, *, key: str | None = None) -> ServerCall:
        """POST to a path, with an Idempotency-Key if given."""
        return self._send(name, "POST", path, body, {"Idempotency-Key": key} if key else {})

    def _send(self, name: str, method: str, path: str, body: Any, headers: dict[str, str]) -> ServerCall:
        """Send one request; CaseStoppedError if the server fails, which says nothing about the engine behind ours."""
        sent = None if body is None else json.dumps(body)
        if sent is not None:
            headers = headers | {"Content-Type": "application/json"}
        connection = HTTPConnection(self._address, timeout=TIMEOUT)
        try:
            connection.request(method, path, sent, headers | self._authorization)
            response = connection.getresponse()
            call = ServerCall(name, method, path, response.status, body, _read(response.read()))
        except (OSError, HTTPException) as failed:
            why = f"the server did not respond to {method} {path}: {failed}"
            raise CaseStoppedError(why, by_engine=self._is_other) from failed
        finally:
            connection.close()
        if name:
            self._note(call)
        if call.status >= FAILED:
            raise CaseStoppedError(f"the server itself failed: {call.summary()}", by_engine=self._is_other)
        return call


def _read(answer: bytes) -> Any:
    try:
        return json.loads(answer) if answer else None
    except ValueError:
        return answer.decode("utf-8", "replace")
