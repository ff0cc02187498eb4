"""A test environment for commands: a data directory, engines on PATH, and `turngate` in this or another process."""

import json
import os
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from tests.fakes.executables import scripted
from turngate import cli
from turngate.contract import load
from turngate.files import write_atomically

TURNGATE = str(Path(sys.executable).with_name("turngate"))
SESSION = "01a20033-ee25-73a3-a8df-8b64e97dac81"
# the options of mode interactive
PINNED = {name: load.contract(name).at().launch.interactive for name in ("codex", "gemini", "opencode")}
OTHER = "01a20033-ee25-73a3-a8df-000000000000"
OPENCODE_SESSION = "ses_0123456789abAAAAAAAAAAAAAA"
IFLOW_SESSION = "session-00000000-0000-4000-8000-000008276001"  # of the recording main-first
VERSIONS = {"codex": "codex-cli 0.169.0", "gemini": "0.61.0", "opencode": "1.18.33", "iflow": "0.5.19"}
Step = list[Any]
Play = list[Step]


class CliResult(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class CliEnv:
    """A user's environment; `type` runs a command line."""

    root: Path
    capture: pytest.CaptureFixture[str]

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.root / "data"

    @property
    def path(self) -> Path:
        """The only directory on PATH that holds engines."""
        return self.root / "path"

    def engine(self, name: str, *plays: Play, version: str | None = None, help_page: str | None = None) -> Path:
        """Put an engine on PATH, or replace what it plays."""
        executable = self.path / name
        if help_page is None:
            help_page = " ".join(word for page in load.contract(name).at().help.pages for word in page.names)
        self.package(name)
        scripted(executable, VERSIONS[name] if version is None else version, help_page)
        write_atomically(executable.with_suffix(".plays"), ascii(json.loads(json.dumps(plays))))
        return executable

    def package(self, name: str) -> None:
        """Let the executables on PATH belong to the package of an engine, unless they belong to one already."""
        self.path.mkdir(parents=True, exist_ok=True)
        described, npm = self.path / "package.json", load.contract(name).at().published.npm
        if npm and not described.exists():
            described.write_text(json.dumps({"name": npm.package, "version": "1.0.0"}))

    def engine_by_directory(self, *plays: Play) -> None:
        """Put a codex on PATH that is 0.147.0 in directories with a file `pin`, and 0.169.0 in all others."""
        for release in ("0.147.0", "0.169.0"):
            CliEnv(self.root / release, self.capture).engine("codex", *plays, version=f"codex-cli {release}")
        self.path.mkdir(exist_ok=True)
        (self.path / "package.json").unlink(missing_ok=True)
        at = f'"{self.root}/$release/path/codex"'
        script = f'#!/bin/sh\nrelease=0.169.0\n[ -e pin ] && release=0.147.0\nexec {at} "$@"\n'
        (self.path / "codex").write_text(script)
        (self.path / "codex").chmod(0o755)

    def type(self, *words: str) -> CliResult:
        """Run `turngate` with these arguments."""
        self.capture.readouterr()
        code = cli.run(words)
        shown = self.capture.readouterr()
        return CliResult(code, shown.out, shown.err)

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        """Start `turngate` in a separate process."""
        pipe = subprocess.PIPE
        return subprocess.Popen([TURNGATE, *words], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def keep_session(self, session: str = SESSION) -> Path:
        """Create a session file in Codex's store."""
        folder = self.root / "home" / ".codex" / "sessions" / "2026" / "01" / "01"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"rollout-2026-01-01T00-00-00-{session}.jsonl"
        file.touch()
        return file

    def meet(self) -> int:
        """Wait until an engine reaches its step `meet`; return its pid."""
        return int((self.path / "meeting").read_text())

    def meet_word(self) -> str:
        """Wait for what an engine writes to the fifo `meeting`."""
        return (self.path / "meeting").read_text()

    def release(self) -> None:
        """Let the engine that was met continue."""
        (self.path / "go").write_text("go\n")

    def fifos(self) -> None:
        """Create the fifos that `meet` and `release` use."""
        self.path.mkdir(exist_ok=True)
        for name in ("meeting", "go"):
            os.mkfifo(self.path / name)

    def begin(self, engine: str = "codex", *words: str) -> str:
        """Start a conversation that succeeds; return its handle."""
        said = self.type("start", engine, *(words or ("hello",)))
        assert said.code == 0, said.err
        return handle_in(said.err)

    def record(self, handle: str) -> dict[str, Any]:
        """Read a record, checked against its schema."""
        record: dict[str, Any] = json.loads((self.data / "handles" / f"{handle}.json").read_text())
        _record_schema().validate(record)
        return record

    def only_record(self) -> dict[str, Any]:
        """Read the only record."""
        (path,) = (self.data / "handles").glob("*.json")
        return self.record(path.stem)

    def change(self, handle: str, changes: dict[str, Any]) -> None:
        """Write a record with other values."""
        path = self.data / "handles" / f"{handle}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    def calls(self, engine: str = "codex") -> list[dict[str, Any]]:
        """Return the calls of an engine, except those that asked for its version or help."""
        file = self.path / f"{engine}.calls"
        return [literal_eval(line) for line in file.read_text().splitlines()] if file.exists() else []


def wrap(engine: Path) -> None:
    """Make an engine lose what NODE_OPTIONS says, as a wrapper on PATH does that sets it."""
    engine.write_text(engine.read_text().replace("\n", "\nexport NODE_OPTIONS=--no-warnings\n", 1))


@cache
def _record_schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(load.schema("handle-record"), format_checker=jsonschema.FormatChecker())


def handle_in(err: str) -> str:
    """Find the handle in the output of a command."""
    return err.rpartition("handle ")[2][:8]


def codex(*texts: str, session: str | None = SESSION, more: Iterable[Step] = ()) -> Play:
    """Return a simulated Codex turn; `more` comes before its end."""
    events: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": session}] if session else []
    events += [{"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in texts]
    return [*_lines(events), *more, *_lines([{"type": "turn.completed", "usage": {}}])]


def gemini(text: str) -> Play:
    """Return a simulated Gemini turn."""
    return [["stdout", json.dumps({"session_id": SESSION, "response": text, "stats": {}}, indent=2)]]


def opencode(text: str) -> Play:
    """Return a simulated OpenCode turn."""
    parts = [("step_start", {}), ("text", {"messageID": "m", "text": text}), ("step_finish", {"reason": "stop"})]
    return _lines([{"type": kind, "sessionID": OPENCODE_SESSION, "part": part} for kind, part in parts])


def recorded(turn: str) -> Play:
    """Return a turn that replays a recording of iFlow."""
    folder = Path(__file__).parents[2] / "fixtures" / "iflow" / "0.5.19" / turn
    return [["stdout", (folder / "stdout").read_text()], ["stderr", (folder / "stderr").read_text()]]


def _lines(events: list[dict[str, Any]]) -> Play:
    return [["stdout", json.dumps(event) + "\n"] for event in events]
