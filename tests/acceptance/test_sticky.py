"""Sticky processes of the real engines, with the stub model backend."""

import queue
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from tests.patience import PATIENCE
from tests.probes import engines
from turngate.contract.engine_contract import EngineContract
from turngate.model import Mode
from turngate_probes.harness.driver import called
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import Refuse, StubRule, Text, new_nonce
from turngate_reference.server.transports.events import (
    Gone,
    Opened,
    OpenRequest,
    PermissionAsked,
    ProcessEvent,
    TurnEnded,
)
from turngate_reference.server.transports.host import ProcessHost

pytestmark = pytest.mark.engines

Kind = TypeVar("Kind", bound=ProcessEvent)


@dataclass
class Kept:
    """A sticky process of one real engine, and its events."""

    contract: EngineContract
    executable: Path
    box: Sandbox
    host: ProcessHost
    reported: "queue.SimpleQueue[ProcessEvent]" = field(default_factory=queue.SimpleQueue)

    def open(self, mode: Mode, model: str | None = None) -> Opened:
        """Start the process, and wait until it is ready; without a `model`, as a probe's turns ask for one."""
        request = OpenRequest(
            executable=self.executable,
            contract=self.contract,
            cwd=self.box.work,
            env=self.box.env(self.contract.hermetic, self.box.work),
            mode=mode,
            tag=uuid.uuid4().hex,
            traces=self.box.root / "traces",
            model=model or self.contract.asked_model,
        )
        self.host.open("run", request, self.reported.put)
        return self.until(Opened)

    def until(self, *kinds: type[Kind]) -> Kind:
        """Wait for the next event of these kinds; fail if the process ends first."""
        while True:
            event = self.reported.get(timeout=PATIENCE)
            if isinstance(event, kinds):
                return event
            assert not isinstance(event, Gone)

    def turn(self, prompt: str) -> TurnEnded:
        """Run a turn without permission requests."""
        self.host.prompt("run", prompt)
        return self.until(TurnEnded)

    def script_a_write(self, word: str) -> None:
        """Make the model call a tool that writes a file, once, at a given word, and then end."""
        call = self.contract.hermetic.tool_call
        assert call
        # some engines respond while a slow command still runs
        arguments = {k: self.box.fill(str(value)).removeprefix("sleep 1; ") for k, value in call.arguments.items()}
        rule = StubRule(called(self.contract, call.name, arguments), contains=word, times=1)
        self.box.backend.script(rule, StubRule(Text("done")))

    @property
    def written(self) -> Path:
        """Return the path of the file that the tool writes."""
        return self.box.work / "touched.txt"

    def is_written(self, *, awaited: bool) -> bool:
        """Return whether the file exists; wait for one that is `awaited`, since a turn may end before its command."""
        deadline = time.monotonic() + PATIENCE
        while awaited and not self.written.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.written.exists()


@pytest.fixture(name="kept", params=["codex", "gemini", "opencode"])
def _kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """Install the pinned release, and start a host for it."""
    engine = str(request.param)
    contract, executable = engines.pinned_release(engine)
    host = ProcessHost()
    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        try:
            yield Kept(contract, executable, box, host)
        finally:
            host.close()


def test_three_turns_run_in_one_process_and_share_their_context(kept: Kept) -> None:
    """The third turn's request has the first turn's mark and the chosen model, and the process is the same."""
    backend, mark = kept.box.backend, new_nonce()
    opened = kept.open(Mode.INTERACTIVE, kept.contract.hermetic.model)
    for number, prompt in enumerate((f"Remember {mark}", "And now?", "--yolo")):
        backend.script(StubRule(Text(f"answer {number}")))
        before = len(backend.exchanges())
        ended = kept.turn(prompt)
        assert (ended.final_text, ended.failure) == (f"answer {number}", None)
        assert psutil.Process(opened.pid).create_time() == opened.started_at
    last = [exchange for exchange in backend.exchanges()[before:] if mark in exchange.nonces]
    assert last
    # some engines omit the provider in front of the model's name
    models = {(exchange.model or "").rpartition("/")[2] for exchange in last}
    assert models == {kept.contract.hermetic.model.rpartition("/")[2]}
    assert not backend.egress()
    kept.host.end("run")
    kept.until(Gone)
    assert not psutil.pid_exists(opened.pid)


def test_an_action_is_asked_for_and_done_only_if_allowed(kept: Kept) -> None:
    """A denied action isn't done, an allowed one is, and the engine asks each time."""
    assert kept.contract.sticky.one_time
    kept.open(Mode.INTERACTIVE)
    kept.box.backend.script(StubRule(Text("hello")))
    kept.turn("hello")
    for word, allowed in (("apple", False), ("banana", True), ("cherry", False)):
        kept.written.unlink(missing_ok=True)
        kept.script_a_write(word)
        kept.host.prompt("run", f"Write {word}.")
        asked = kept.until(PermissionAsked)
        assert len(asked.options) == 2
        assert not kept.written.exists()
        kept.host.decide("run", asked.request_id, asked.options[0 if allowed else 1])
        ended = kept.until(TurnEnded)
        assert (kept.is_written(awaited=allowed), ended.declined, ended.failure) == (allowed, not allowed, None)


def test_in_auto_nobody_is_asked(kept: Kept) -> None:
    """In mode auto the same action is done without a permission request."""
    kept.open(Mode.AUTO)
    kept.box.backend.script(StubRule(Text("hello")))
    kept.turn("hello")
    kept.script_a_write("apple")
    kept.host.prompt("run", "Write apple.")
    assert isinstance(kept.until(PermissionAsked, TurnEnded), TurnEnded)
    assert kept.is_written(awaited=True)


def test_a_refused_key_is_a_failure_of_the_turn(kept: Kept) -> None:
    """The turn fails with the backend's message, and the process keeps running."""
    kept.open(Mode.INTERACTIVE)
    kept.box.backend.script(StubRule(Refuse(401)))
    assert "refused as scripted" in (kept.turn("hello").failure or "")
    kept.box.backend.script(StubRule(Text("better")))
    assert kept.turn("hello again").final_text == "better"
