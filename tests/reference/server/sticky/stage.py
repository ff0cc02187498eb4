"""A host for fake engines, and a listener that records its events."""

import os
import queue
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.fakes.executables import sticky
from tests.patience import PATIENCE
from turngate.contract import load
from turngate.contract.launch import PermissionMode
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate_reference.server.sticky.events import Gone, Opened, StickyEvent, StickyRequest, TurnEnded
from turngate_reference.server.sticky.session import StickyHost

ENGINES = {"acp": "gemini", "app_server": "codex", "stream_json": "claude", "json_commands": "pi"}
all_of_them = pytest.mark.parametrize("transport", list(ENGINES))
Kind = TypeVar("Kind", bound=StickyEvent)


def contract(transport: str, *before: str, permission_mode: PermissionMode | None = None) -> EngineContract:
    """Return the contract of an engine that speaks the transport, with the fake as its executable."""
    known = load.contract(ENGINES[transport]).at()
    sticky = replace(known.sticky, argv=(*before, transport))
    return replace(known, sticky=replace(sticky, interactive=permission_mode) if permission_mode else sticky)


@dataclass
class Heard:
    """The events that a run's listener received, in order, with their times."""

    events: "queue.SimpleQueue[tuple[float, StickyEvent]]" = field(default_factory=queue.SimpleQueue)
    past: list[StickyEvent] = field(default_factory=list)
    at: float = 0.0

    def __call__(self, event: StickyEvent) -> None:
        """Record an event."""
        self.events.put((time.monotonic(), event))

    def until(self, kind: type[Kind]) -> Kind:
        """Wait for the next event of a kind; fail if the run ends first."""
        while True:
            self.at, event = self.events.get(timeout=PATIENCE)
            self.past.append(event)
            if isinstance(event, kind):
                return event
            assert not isinstance(event, Gone), self.past


@dataclass
class Stage:
    """Runs fake engines: a host, and a folder with the traces of each run."""

    host: StickyHost
    folder: Path

    def executable(self) -> Path:
        """Return the path of the fake's executable."""
        path = self.folder / "fake"
        return path if path.exists() else sticky(path)

    def request(self, known: EngineContract, run: str, mode: Mode, env: Mapping[str, str]) -> StickyRequest:
        """Return a request for a process."""
        path = {"PATH": os.environ["PATH"], **env}
        return StickyRequest(self.executable(), known, self.folder, path, mode, uuid.uuid4().hex, self.folder / run)

    def open(self, known: EngineContract, run: str = "run", mode: Mode = Mode.INTERACTIVE, flaws: str = "") -> Heard:
        """Open a process and record its events."""
        heard = Heard()
        self.host.open(run, self.request(known, run, mode, {"FAKE_FLAWS": flaws}), heard)
        return heard

    def opened(self, known: EngineContract, run: str = "run", mode: Mode = Mode.INTERACTIVE) -> tuple[Heard, Opened]:
        """Open a process and wait until it is ready."""
        heard = self.open(known, run, mode)
        return heard, heard.until(Opened)

    def turn(self, heard: Heard, prompt: str, run: str = "run") -> TurnEnded:
        """Run a turn to its end."""
        self.host.prompt(run, prompt)
        return heard.until(TurnEnded)
