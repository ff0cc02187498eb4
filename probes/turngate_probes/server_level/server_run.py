"""A run on a private server, in the sandbox of a case: what a caller does with it, and what is observed."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngate.model import Mode
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Call
from turngate_probes.server_level.client import ServerClient
from turngate_probes.server_level.observed_turn import DATA, Prompt, turn_of
from turngate_probes.server_level.server import ServerProcess, request
from turngate_probes.server_level.shim import Shim, install
from turngate_probes.stub_model import Reply, Rule

TURN_LIMIT = 120
SPARE = 30.0  # seconds beyond the limit of a turn, in which the server must say what became of it
_FIRST_LOOK, _LATEST_LOOK = 0.02, 0.5
_UNSETTLED = ("queued", "running")


@dataclass(slots=True)
class ServerRun:
    """One run: created, asked about, answered. Each request is noted under the name of its step."""

    driver: EngineDriver
    shim: Shim
    run: dict[str, Any] = field(default_factory=dict)
    _lives: int = 0
    _prompts: list[Prompt] = field(default_factory=list)
    _turns_seen: int = 0
    _requests_seen: int = 0
    _life: ServerProcess = field(init=False)
    _client: ServerClient = field(init=False)

    def open(self, *, behind: bool = False) -> None:
        """Start the server, `behind` a launcher that outlives it; CaseStoppedError if it does not serve."""
        driver, hermetic, root = self.driver, self.driver.contract.hermetic, self.driver.sandbox.root
        env = driver.sandbox.env(hermetic, root)
        env["PATH"] = f"{self.shim.folder}:{env.get('PATH', '')}"
        # what the contract does not list the server would keep from the engine
        unlisted = {"TURNGATE_SIMULATE_URL", *hermetic.env} - {
            *driver.contract.environment.passed, *driver.contract.environment.locations
        }  # fmt: skip
        self._lives += 1
        name = self._name(f"serve-{self._lives}")
        self._life = ServerProcess(request(root / DATA, root, env, unlisted, behind=behind), driver.interrupt, name)
        self._life.__enter__()
        self._client = ServerClient(self._life.url, driver.note)

    def close(self) -> None:
        """End the server."""
        self._life.__exit__(None, None, None)
        self.driver.note(self._life.page())

    def kill_and_open(self) -> None:
        """Kill the server without warning, and start it again on the same data."""
        self._life.kill()
        self.close()
        self.open()

    def create(self, reply: Reply, *, timeout: int = TURN_LIMIT, **more: Any) -> None:
        """Create an interactive run; CaseStoppedError if it is refused."""
        driver = self.driver
        prompt = self._says(Prompt.of("Ask me which colour I like.", reply))
        body = {
            "engine": driver.contract.engine, "prompt": prompt.text, "execution_mode": Mode.INTERACTIVE.value,
            "model": driver.contract.hermetic.model, "session_timeout_sec": timeout, "workspace": str(self._workspace),
            "engine_options": [driver.sandbox.fill(token) for token in driver.contract.hermetic.options], **more,
        }  # fmt: skip
        call = self._client.post("/v1/runs", body, self._name("create"))
        if "links" not in call.document:
            raise CaseStoppedError(f"no run was created: {call.said()}", by_engine=True)
        self.run = call.document

    def settle(self, step: str) -> dict[str, Any]:
        """Wait until the run is neither queued nor running, or for too long; notes it and its new turns."""
        self._note_turns(self.follow(step))
        return self.run

    def follow(self, step: str, states: tuple[str, ...] = _UNSETTLED) -> list[dict[str, Any]]:
        """Wait while the run is in these states, or for too long; note it, return what the server says of its turns."""
        deadline, pause = time.monotonic() + TURN_LIMIT + SPARE, _FIRST_LOOK
        path = self.run["links"]["self"]
        while self._client.get(path).document.get("state") in states and time.monotonic() < deadline:
            self.driver.interrupt.wait(pause)
            pause = min(pause * 1.5, _LATEST_LOOK)
        self.run |= self.show(step).document
        return self._turns(self._name(f"{step}-turns"))

    def show(self, step: str) -> Call:
        """Read the run."""
        return self._client.get(self.run["links"]["self"], self._name(step))

    def question(self, step: str) -> str:
        """Read the question and return its id; CaseStoppedError if there is none."""
        call = self._client.get(self.run["links"]["interaction"], self._name(step))
        pending = call.document.get("pending")
        if not pending:
            raise CaseStoppedError(f"the run asks nothing: {self._standing()}", by_engine=True)
        return str(pending["interaction_id"])

    def reply(self, step: str, question: str, prompt: Prompt, key: str | None = None) -> Call:
        """Answer a question."""
        self._says(prompt)
        return self.answer(step, question, prompt.text, key)

    def answer(self, step: str, question: str, text: str, key: str | None = None) -> Call:
        """Answer by these very words."""
        body = {"interaction_id": question, "response": text}
        return self._client.post(self.run["links"]["reply"], body, self._name(step), key=key)

    def race(self, step: str, question: str, prompts: list[Prompt], key: str | None = None) -> list[Call]:
        """Answer a question many times at once, by as many prompts; the one that was taken is the next turn's."""
        self.driver.sandbox.backend.script(Rule(prompts[0].reply))
        with ThreadPoolExecutor(len(prompts)) as pool:
            asked = [
                pool.submit(self.answer, f"{step}-{i}", question, prompt.text, key)
                for i, prompt in enumerate(prompts, 1)
            ]
        calls = [future.result() for future in asked]
        taken = [prompt for prompt, call in zip(prompts, calls, strict=True) if "links" in call.document]
        self._prompts += taken[:1] or prompts[:1]
        return calls

    def until_asked(self) -> None:
        """Wait until the model was sent the prompt; CaseStoppedError if it never is."""
        deadline, nonce = time.monotonic() + TURN_LIMIT, self._prompts[-1].nonce
        while not any(nonce in request.nonces for request in self.driver.sandbox.backend.exchanges()):
            self.driver.interrupt.wait(_FIRST_LOOK)
            if time.monotonic() > deadline:
                what = f"the model was asked nothing in {TURN_LIMIT} s: {self._standing()}"
                raise CaseStoppedError(what, by_engine=True)

    def cancel(self, step: str) -> Call:
        """Cancel the run."""
        return self._client.post(self.run["links"]["cancel"], {}, self._name(step))

    def forget_sessions(self) -> None:
        """Make the home directory as it was before the first turn, so that no session is left in it."""
        # moved, since what still writes to it may keep it from being removed
        self.driver.sandbox.home.rename(self.driver.sandbox.root / "home-before")
        self.driver.sandbox.furnish(self.driver.contract.hermetic)

    @property
    def _workspace(self) -> Path:
        return self.driver.sandbox.work.resolve()

    def _name(self, step: str) -> str:
        return f"{self.driver.case}/{step}"

    def _says(self, prompt: Prompt) -> Prompt:
        self._prompts.append(prompt)
        self.driver.sandbox.backend.script(Rule(prompt.reply))
        return prompt

    def _turns(self, name: str = "") -> list[dict[str, Any]]:
        """Read what the server says of the run's turns."""
        return list(self._client.get(self.run["links"]["turns"], name).document.get("turns", ()))

    def _standing(self) -> str:
        error = self.run.get("error") or {}
        return ": ".join(str(word) for word in (self.run.get("state"), *error.values()) if word)

    def _note_turns(self, told: list[dict[str, Any]]) -> None:
        """Note the engine's starts since the last time, each with what the server says of that turn."""
        exchanges = self.driver.sandbox.backend.exchanges()
        for i, start in list(enumerate(self.shim.starts(self._workspace)))[self._turns_seen :]:
            prompt = self._prompts[min(i, len(self._prompts) - 1)]
            said = told[i] if i < len(told) else {}
            self.driver.note(
                turn_of(self.driver, i + 1, start, prompt, self.run, said, exchanges[self._requests_seen :])
            )
            self._turns_seen = i + 1
        self._requests_seen = len(exchanges)


def server_case(play: Callable[[ServerRun], None], *, hide: bool = False) -> Callable[[EngineDriver], None]:
    """Wrap server steps as a case; `hide`: the engine's output lacks session ids."""

    def run_case(driver: EngineDriver) -> None:
        with driver.slot():
            shim = install(driver.contract, driver.executable, driver.sandbox.root, hide=hide)
            with closing(ServerRun(driver, shim)) as run:
                run.open()
                play(run)

    return run_case
