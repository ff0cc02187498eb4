"""A wrapper around an engine that changes its input and output.

`behaviour.json` next to it has the engine, how to recognize resumes, the variable for the proof of the guards if the
contract has one, and the changes. Each change has a word, its arguments, and `when`, the kind of call that it changes:
version, help, start, resume, or turn (the last two).
"""

import fcntl
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

ME = Path(__file__).resolve()
HOME = Path(os.environ.get("CODEX_HOME", "."))
TEXT_IDS = re.compile(r'"thread_id": ?"([^"]+)"')
Word = Callable[..., None]
BEFORE: dict[str, Word] = {}
INSTEAD: dict[str, Word] = {}
AFTER: dict[str, Word] = {}
TOLD = json.loads((ME.parent / "behaviour.json").read_text()) if (ME.parent / "behaviour.json").exists() else {}


class WrappedCall:
    """One call of the engine: its input, and then its output."""

    def __init__(self, argv: list[str]) -> None:
        """Store the arguments; the engine inherits stdin unless a change reads it."""
        self.argv, self.kind = argv, kind_of(argv)
        self.stdin: bytes | None = None
        self.stdout = self.stderr = b""
        self.code = 0
        self.lock: IO[str] | None = None

    def read_stdin(self) -> bytes:
        """Return all of stdin."""
        if self.stdin is None:
            # the prompt comes only after the proof, and the engine, which may run twice, then needs none
            if pipe := os.environ.pop(TOLD["proof"], ""):
                Path(pipe).read_bytes()
            self.stdin = sys.stdin.buffer.read()
        return self.stdin

    def run(self) -> None:
        """Run the engine."""
        # unless stdin was read, the engine inherits it
        done = subprocess.run([TOLD["engine"], *self.argv], input=self.stdin, capture_output=True, check=False)
        self.stdout, self.stderr, self.code = done.stdout, done.stderr, done.returncode


def kind_of(argv: list[str]) -> str:
    """Return the kind of a call."""
    words = argv[: argv.index("--")] if "--" in argv else argv
    if "--version" in words or "--help" in words:
        return "version" if "--version" in words else "help"
    return "resume" if TOLD["resume_word"] in words else "start"


def resumed_by(call: WrappedCall) -> str:
    """Return the session that a call resumes; empty if it is a first turn."""
    return call.argv[call.argv.index(TOLD["resume_word"]) + 1] if call.kind == "resume" else ""


def before(function: Word) -> Word:
    """Register a word that acts before the engine runs."""
    BEFORE[function.__name__] = function
    return function


def instead(function: Word) -> Word:
    """Register a word that replaces the engine's run."""
    INSTEAD[function.__name__] = function
    return function


def after(function: Word) -> Word:
    """Register a word that acts after the engine ended, before its output is printed."""
    AFTER[function.__name__] = function
    return function


@before
def refuse(call: WrappedCall, option: str, after: str = "") -> None:
    """Reject an option, anywhere or only after a word."""
    if option in call.argv[call.argv.index(after) if after else 0 :]:
        sys.stderr.write(f"error: unexpected argument '{option}' found\n")
        sys.exit(2)


@before
def add(call: WrappedCall, arguments: list[str], after: str) -> None:
    """Act as if further arguments were passed after a word, unless they were."""
    if {*arguments} <= {*call.argv}:
        return
    at = call.argv.index(after) + 1
    call.argv[at:at] = arguments


@before
def ignore(call: WrappedCall, option: str) -> None:
    """Accept an option with its value, and do nothing with it."""
    if option in call.argv:
        at = call.argv.index(option)
        del call.argv[at : at + 2]


@before
def swap_positionals(call: WrappedCall) -> None:
    """Read the last two arguments in the other order."""
    call.argv[-2:] = [call.argv[-1], call.argv[-2]]


@before
def prompt_as_option(call: WrappedCall) -> None:
    """Read a prompt that begins with a dash as an option."""
    if call.read_stdin().startswith(b"-"):
        sys.stderr.write(f"error: unexpected argument '{call.read_stdin().decode()}' found\n")
        sys.exit(2)


@before
def clip_prompt(call: WrappedCall, size: int) -> None:
    """Keep only the beginning of the prompt."""
    call.stdin = call.read_stdin()[:size]


@before
def first_line(call: WrappedCall) -> None:
    """Keep only the first line of the prompt."""
    call.stdin = call.read_stdin().partition(b"\n")[0]


@before
def home_per(call: WrappedCall, what: str) -> None:
    """Use a separate home for each working directory (`cwd`) or for each call, so that sessions are lost."""
    home = HOME / (Path.cwd().name if what == "cwd" else uuid.uuid4().hex)
    home.mkdir(exist_ok=True)
    shutil.copy(HOME / "config.toml", home)
    os.environ["CODEX_HOME"] = str(home)


@before
def erase_sessions(call: WrappedCall) -> None:
    """Delete all sessions."""
    shutil.rmtree(HOME / "sessions", ignore_errors=True)


@before
def continue_last(call: WrappedCall) -> None:
    """Resume the last used session instead of starting a new one."""
    used = sorted((HOME / "sessions").glob("*.json"), key=lambda path: path.stat().st_mtime)
    if used:
        call.argv[-1:-1] = [TOLD["resume_word"], used[-1].stem]


@before
def attach(call: WrappedCall) -> None:
    """Append the files that the prompt names by their absolute path after an @."""
    prompt = call.read_stdin().decode()
    call.stdin = "\n".join([prompt, *(Path(path).read_text() for path in re.findall(r"@(/\S+)", prompt))]).encode()


@before
def share_prompt(call: WrappedCall, seconds: int) -> None:
    """Pass the prompt through a file of the home, which a call that starts within these seconds overwrites."""
    file = HOME / "prompt"
    file.write_bytes(call.read_stdin())
    time.sleep(seconds)
    call.stdin = file.read_bytes()


@before
def lock_home(call: WrappedCall) -> None:
    """Fail if another call runs in the home."""
    call.lock = (HOME / "lock").open("w")
    try:
        fcntl.flock(call.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("error: database is locked\n")
        sys.exit(1)


@instead
def start_fresh(call: WrappedCall, *, only_if_refused: bool = False) -> None:
    """Ignore the id and start a new session."""
    if only_if_refused:
        call.read_stdin()
        call.run()
        if call.code == 0:
            return
    at = call.argv.index(TOLD["resume_word"])
    del call.argv[at : at + 2]
    call.run()


@instead
def answer_from_cache(call: WrappedCall) -> None:
    """Print what an equal call has printed before, without running the engine."""
    asked = json.dumps([call.argv, call.read_stdin().decode()])
    place = HOME / f"cache-{hashlib.sha256(asked.encode()).hexdigest()}"
    if place.exists():
        call.stdout = place.read_bytes()
        return
    call.run()
    place.write_bytes(call.stdout)


@instead
def forget_after(call: WrappedCall, what: str) -> None:
    """Run, but in a new session if the last turn of the session made a file, failed, or was killed."""
    resumed, present = resumed_by(call), {*Path.cwd().iterdir()}
    mark = HOME / f"forgets-{resumed}"
    if resumed and mark.exists():
        at = call.argv.index(TOLD["resume_word"])
        del call.argv[at : at + 2]
    mark.unlink(missing_ok=True)
    if what == "kill":
        mark.touch()  # until the turn ends otherwise
    call.run()
    mark.unlink(missing_ok=True)
    if {"call": {*Path.cwd().iterdir()} - present, "failure": call.code, "kill": False}[what]:
        for session in TEXT_IDS.findall(call.stdout.decode())[:1]:
            (HOME / f"forgets-{session}").touch()


@instead
def run_in_copy(call: WrappedCall) -> None:
    """Run in a copy of the home, and then put the session back, over what another call has put there."""
    copy = HOME.with_name(f"copy-{uuid.uuid4()}")
    shutil.copytree(HOME, copy)
    os.environ["CODEX_HOME"] = str(copy)
    call.run()
    (HOME / "sessions").mkdir(exist_ok=True)
    for session in TEXT_IDS.findall(call.stdout.decode())[:1]:
        shutil.copy(copy / "sessions" / f"{session}.json", HOME / "sessions")


@instead
def begin_anew(call: WrappedCall, after_turns: int) -> None:
    """Run, but in a new session if the resumed one has had this many turns."""
    resumed = resumed_by(call)
    file = HOME / f"turns-of-{resumed}"
    had = int(file.read_text()) if file.exists() else 1
    if resumed and had >= after_turns:
        at = call.argv.index(TOLD["resume_word"])
        del call.argv[at : at + 2]
    elif resumed:
        file.write_text(str(had + 1))
    call.run()


@instead
def keep_unsummarized(call: WrappedCall) -> None:
    """Run, and put back a session that has fewer messages after the turn than before, as it was."""
    was = {path: path.read_bytes() for path in (HOME / "sessions").rglob("*.jsonl")}
    call.run()
    for path, data in was.items():
        if path.read_bytes().count(b"\n") < data.count(b"\n"):
            path.write_bytes(data)


@instead
def number_sessions(call: WrappedCall) -> None:
    """Number the sessions of each home from 1, in the shape of the engine's ids."""
    file = HOME / "numbers"
    own: list[str] = file.read_text().split() if file.exists() else []
    numbers = {f"00000000-0000-7000-8000-{number:012}": session for number, session in enumerate(own, 1)}
    call.argv = [numbers.get(argument, argument) for argument in call.argv]
    call.run()
    own += [session for session in TEXT_IDS.findall(call.stdout.decode())[:1] if session not in own]
    file.write_text("\n".join(own))
    for number, session in enumerate(own, 1):
        call.stdout = call.stdout.replace(session.encode(), f"00000000-0000-7000-8000-{number:012}".encode())


@after
def say(call: WrappedCall, text: str, stream: str = "stdout", at: str = "start", if_passed: str = "") -> None:
    """Print a text before or after the engine's output."""
    if if_passed and if_passed not in call.argv:
        return
    was = getattr(call, stream)
    setattr(call, stream, text.encode() + was if at == "start" else was + text.encode())


@after
def substitute(call: WrappedCall, pattern: str, by: str, stream: str = "stdout") -> None:
    """Replace every match of a regular expression in the output."""
    setattr(call, stream, re.sub(pattern.encode(), by.encode(), getattr(call, stream)))


@after
def to_stderr(call: WrappedCall) -> None:
    """Print stdout on stderr."""
    call.stdout, call.stderr = b"", call.stderr + call.stdout


@after
def exit_with(call: WrappedCall, code: int, if_code: int | None = None) -> None:
    """Exit with another code."""
    call.code = code if if_code in (None, call.code) else call.code


@after
def hang(call: WrappedCall) -> None:
    """Never exit, without printing the output."""
    signal.pause()


@after
def leave_talking_child(call: WrappedCall) -> None:
    """Leave a process running that holds stdout open, and prints later."""
    script = "import time; time.sleep(0.2); print('late news', flush=True); time.sleep(60)"
    subprocess.Popen([sys.executable, "-ISc", script], stdin=subprocess.DEVNULL)


@before
def phone_home(call: WrappedCall, host: str) -> None:
    """Try to reach a host through the proxy."""
    request("CONNECT", f"{host}:443")


@before
def fetch(call: WrappedCall, path: str) -> None:
    """Request another path from the model backend."""
    request("GET", path)


def request(method: str, target: str) -> None:
    """Send a request to the model backend, which is also the proxy."""
    backend = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
    connection = http.client.HTTPConnection(str(backend.hostname), backend.port)
    connection.request(method, target)
    connection.getresponse().read()


@after
def update_itself(call: WrappedCall) -> None:
    """Replace the executable with a newer one."""
    ME.write_text(ME.read_text() + "\n# newer\n")


def write(call: WrappedCall) -> None:
    """Print stdout and stderr."""
    sys.stdout.buffer.write(call.stdout)
    sys.stderr.buffer.write(call.stderr)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.flush()


def main() -> int:
    """Handle one call."""
    call = WrappedCall(sys.argv[1:])
    changes = [change for change in TOLD["changes"] if concerns(change.pop("when"), call.kind)]
    apply(changes, BEFORE, call)
    if not apply(changes, INSTEAD, call):
        call.run()
    apply(changes, AFTER, call)
    write(call)
    return call.code


def apply(changes: list[dict[str, Any]], words: dict[str, Word], call: WrappedCall) -> int:
    """Apply the changes that use these words in order, and return how many were applied."""
    chosen = [change for change in changes if change["do"] in words]
    for change in chosen:
        words[change["do"]](call, **{key: value for key, value in change.items() if key != "do"})
    return len(chosen)


def concerns(when: str, kind: str) -> bool:
    """Return whether a change applies to this kind of call."""
    return when == kind or (when == "turn" and kind in ("start", "resume"))


if __name__ == "__main__":
    sys.exit(main())
