"""A host for fake engines, and a listener that records its events."""

import json
import os
import queue
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from msgspec.structs import replace

from tests.fakes.executables import simulated
from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.probes.simulate.played import at_known_release
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import PermissionMode
from turngate.model import Mode
from turngate_reference.server.transports.events import Gone, Opened, OpenRequest, ProcessEvent, TurnEnded
from turngate_reference.server.transports.host import ProcessHost

ENGINES = {"acp": "gemini", "app_server": "codex", "stream_json": "claude", "json_commands": "pi"}
all_of_them = pytest.mark.parametrize("transport", list(ENGINES))
one_of_them = pytest.mark.parametrize("transport", first_quick(ENGINES))  # for what the transports share
ASKING = Mode.INTERACTIVE
_KIND = {"method", "request"}
_ANSWERS = ("control_response", "extension_ui_response")
Kind = TypeVar("Kind", bound=ProcessEvent)


def contract(transport: str, approval: PermissionMode | None = None) -> EngineContract:
    """Return the contract of an engine that speaks the transport."""
    known = at_known_release(ENGINES[transport])
    return replace(known, sticky=replace(known.sticky, interactive=approval)) if approval else known


@dataclass
class ReceivedEvents:
    """The events that a run's listener received, in order, with their times."""

    events: "queue.SimpleQueue[tuple[float, ProcessEvent]]" = field(default_factory=queue.SimpleQueue)
    past: list[ProcessEvent] = field(default_factory=list)
    at: float = 0.0

    def __call__(self, event: ProcessEvent) -> None:
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

    host: ProcessHost
    folder: Path

    def executable(self, known: EngineContract) -> Path:
        """Return the path of an engine's executable."""
        path = self.folder / "bin" / known.executable
        return path if path.exists() else simulated(known, path)

    def request(self, known: EngineContract, run: str = "run", mode: Mode = ASKING, faults: str = "") -> OpenRequest:
        """Return a request for a process with faults in every turn."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "FAULTS": faults}
        return OpenRequest(self.executable(known), known, self.folder, env, mode, uuid.uuid4().hex, self.folder / run)

    def open(self, known: EngineContract, mode: Mode = ASKING, faults: str = "", run: str = "run") -> ReceivedEvents:
        """Open a process and record its events."""
        received = ReceivedEvents()
        self.host.open(run, self.request(known, run, mode, faults), received)
        return received

    def opened(self, known: EngineContract, mode: Mode = ASKING, faults: str = "") -> tuple[ReceivedEvents, Opened]:
        """Open a process and wait until it is ready."""
        received = self.open(known, mode, faults)
        return received, received.until(Opened)

    def turn(self, received: ReceivedEvents, prompt: str) -> TurnEnded:
        """Run a turn to its end."""
        self.host.prompt("run", prompt)
        return received.until(TurnEnded)

    def messages(self, direction: Literal["<", ">"]) -> list[dict[str, Any]]:
        """Return what the engine wrote (<), or what was written to it (>)."""
        lines = [line.split(" ", 2) for line in (self.folder / "run/protocol").read_text().splitlines()]
        return [json.loads(text) for _, to, text in lines if to == direction and text.startswith("{")]

    def answers(self) -> list[str]:
        """Return what the engine was answered, in the order of its requests: a decision, or how it was refused."""
        asked = [_id(message) for message in self.messages("<") if _KIND & message.keys() and _id(message) is not None]
        said = {_id(message): message for message in self.messages(">") if is_answer(message)}
        return [_answer(said[number]) for number in asked if number in said]


def is_answer(message: dict[str, Any]) -> bool:
    """Whether a message answers a request of the engine."""
    return bool({"result", "error"} & message.keys()) or message.get("type") in _ANSWERS


def _id(message: dict[str, Any]) -> object:
    inner = message.get("response")
    return (inner if isinstance(inner, dict) else message).get("request_id", message.get("id"))


def _answer(message: dict[str, Any]) -> str:
    match message:
        case {"result": {"outcome": outcome}}:
            return str(outcome.get("optionId") or outcome["outcome"])
        case {"result": {"decision": decision}}:
            return str(decision)
        case {"response": {"response": {"behavior": behavior}}}:
            return str(behavior)
        case {"confirmed": confirmed}:
            return "allow" if confirmed else "deny"
        case {"cancelled": True}:
            return "cancelled"
    return "error"
