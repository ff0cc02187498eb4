"""Runs on a server with a sticky engine process, and what is observed of that process."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from turngate.argv.build import read_options
from turngate.contract.clauses import Reason
from turngate.model import AdapterTurnResult, Outcome
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.server_level.observed_turn import Prompt, alive, printed, trace, turn_of
from turngate_probes.server_level.server_run import TURN_LIMIT, ServerRun
from turngate_probes.server_level.shim import Start, install
from turngate_probes.stub_model import Exchange, Reply, Rule, ToolCall

GONE_WITHIN = 10.0
UNENDED = ("queued", "running", "waiting_user")
_LOOK = 0.05


@dataclass(slots=True)
class StickyServerRun(ServerRun):
    """Runs with a sticky process each, one after the other on one server."""

    _earlier: int = 0

    def keep(self, reply: Reply, *, limit: int = TURN_LIMIT) -> None:
        """Create a run with a sticky process."""
        self._earlier = len(self._starts())
        self.create(reply, timeout=limit, interactive_profile="sticky_process", engine_options=self._options())

    def waits(self, step: str) -> None:
        """Wait until the run waits for its user; CaseStoppedError if it does not."""
        self.follow(step)
        if self.run.get("state") != "waiting_user":
            raise CaseStoppedError(f"the run does not wait with its process: {self._standing()}", by_engine=True)

    def ends(self, step: str) -> float:
        """Wait until the run has ended and nothing of its process is left, or for too long; return the seconds.

        The server knows a little later than the system that a process is gone, and how it ended.
        """
        began = time.monotonic()
        self.follow(step, UNENDED)
        seconds = time.monotonic() - began
        tag, deadline = self.process.tag, time.monotonic() + GONE_WITHIN
        while (alive(tag) or not self._exit_is_known()) and time.monotonic() < deadline:
            self.driver.interrupt.wait(_LOOK)
        return seconds

    def _exit_is_known(self) -> bool:
        turns = self._turns()
        return not turns or turns[-1]["exit_code"] is not None

    @property
    def process(self) -> Start:
        """The first start of the engine for this run; CaseStoppedError if there is none."""
        starts = self._starts()[self._earlier :]
        if not starts:
            raise CaseStoppedError(f"the engine was not started: {self._standing()}", by_engine=True)
        return starts[0]

    def act(self, step: str, question: str, prompt: Prompt, call: ToolCall) -> None:
        """Answer a question; the model asks for a tool then, and answers when that has been refused."""
        self._prompts.append(prompt)
        self.driver.sandbox.backend.script(Rule(call, contains=prompt.nonce, times=1), Rule(prompt.reply))
        self.answer(step, question, prompt.text)

    def asked(self, step: str) -> dict[str, Any]:
        """Read the question, whatever it is."""
        self.question(step)
        call = self._client.get(self.run["links"]["interaction"])
        return dict(call.document["pending"])

    def kill_process(self) -> None:
        """Kill the started process alone, as the system does that is out of memory."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)

    def kill_server(self) -> None:
        """Kill the server without warning, and start it again before anybody else ends what it has left."""
        self._life.kill()
        before = self._life
        try:
            self.open()
        finally:
            before.__exit__(None, None, None)
            self.driver.note(before.page())

    def note_turn(self, step: str, number: int, prompt: int, seconds: float | None = None) -> None:
        """Note a turn of the run, in which that prompt was given, with what now runs of the process."""
        told = self._turns()
        said = told[number - 1] if number <= len(told) else {}
        if seconds is not None:
            said["seconds"] = seconds
        exchanges = self.driver.sandbox.backend.exchanges()
        requests, self._requests_seen = exchanges[self._requests_seen :], len(exchanges)
        self._note(step, self.process, number, self._prompts[prompt], said, requests)

    def note_further_starts(self) -> None:
        """Note each start of the engine for this run beyond the first one, as a turn of its own."""
        for i, start in enumerate(self._starts()[self._earlier + 1 :], 2):
            self._note(f"start-{i}", start, 1, self._prompts[-1], {}, ())

    def _note(
        self,
        step: str,
        start: Start,
        number: int,
        prompt: Prompt,
        said: dict[str, Any],
        requests: tuple[Exchange, ...],
    ) -> None:
        turn = turn_of(self.driver, number, start, prompt, self.run, said, requests)
        # its streams are those of a protocol, of which only the server can say what it came to
        result = AdapterTurnResult(Outcome(said.get("outcome") or Outcome.ERROR))
        reading = structs.replace(turn.reading, result=result, session=None)
        turn = replace(
            turn, name=self._name(step), own_arguments=start.arguments, resumed=None, reading=reading,
            stdout=printed(trace(self.driver.sandbox, self.run, 1, "protocol")),
        )  # fmt: skip
        self.driver.note(turn)

    def _starts(self) -> list[Start]:
        """List the starts of the engine in the run's directory that are not there to look at its configuration."""
        stance = self.driver.contract.sticky.interactive
        query = stance.query.argv if stance and stance.query else None
        return [start for start in self.shim.starts(self._workspace) if start.arguments != query]

    def _options(self) -> list[str]:
        """Return the hermetic options that a sticky process takes."""
        contract = self.driver.contract
        tokens = [self.driver.sandbox.fill(token) for token in contract.hermetic.options]
        placed = read_options(contract, tokens)
        return [t for p in placed if p.option.flag in contract.sticky.options for t in p.tokens]


def sticky_case(play: Callable[[StickyServerRun], None]) -> Callable[[EngineDriver], None]:
    """Wrap steps on a server behind a launcher, which outlives it, as a case."""

    def run_case(driver: EngineDriver) -> None:
        if driver.contract.sticky.transport == "none":
            raise CaseStoppedError("its contract has no sticky transport", Reason.CONTRACT)
        with driver.slot():
            shim = install(driver.contract, driver.executable, driver.sandbox.root)
            with closing(StickyServerRun(driver, shim)) as run:
                run.open(behind=True)
                play(run)

    return run_case
