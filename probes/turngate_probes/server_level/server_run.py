"""One run on a server of its own, in the sandbox of a case: what a caller does with it, and what is seen of it."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngate.model import Mode
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import Call
from turngate_probes.server_level.client import Client
from turngate_probes.server_level.observed_turn import DATA, Prompt, turn_of
from turngate_probes.server_level.server import Serving, request
from turngate_probes.server_level.shim import Shim, install
from turngate_probes.stub_model import Reply, Rule

TURN_LIMIT = 120
SPARE = 30.0  # seconds beyond the limit of a turn, in which the server must say what became of it
_FIRST_LOOK, _LATEST_LOOK = 0.02, 0.5
_UNSETTLED = ("queued", "running")


@dataclass(slots=True)
class ServerRun:
    """One run: created, asked about, answered. Each request is noted under the name of its step."""

    lab: EngineDriver
    shim: Shim
    run: dict[str, Any] = field(default_factory=dict)
    _lives: int = 0
    _prompts: list[Prompt] = field(default_factory=list)
    _turns_seen: int = 0
    _requests_seen: int = 0
    _life: Serving = field(init=False)
    _client: Client = field(init=False)

    def open(self, *, behind: bool = False) -> None:
        """Start the server, `behind` a launcher that outlives it; CaseStoppedError if it does not serve."""
        lab, hermetic, root = self.lab, self.lab.contract.hermetic, self.lab.sandbox.root
        env = lab.sandbox.env(hermetic, root)
        env["PATH"] = f"{self.shim.folder}:{env.get('PATH', '')}"
        # what the contract does not list the server would keep from the engine
        unlisted = {"TURNGATE_SIMULATE_URL", *hermetic.env} - {
            *lab.contract.environment.passed, *lab.contract.environment.locations
        }  # fmt: skip
        self._lives += 1
        name = self._name(f"serve-{self._lives}")
        self._life = Serving(request(root / DATA, root, env, unlisted, behind=behind), lab.interrupt, name)
        self._life.__enter__()
        self._client = Client(self._life.url, lab.note)

    def close(self) -> None:
        """End the server."""
        self._life.__exit__(None, None, None)
        self.lab.note(self._life.page())

    def kill_and_open(self) -> None:
        """Kill the server without warning, and start it again on the same data."""
        self._life.kill()
        self.close()
        self.open()

    def create(self, reply: Reply, *, timeout: int = TURN_LIMIT, **more: Any) -> None:
        """Create an interactive run; CaseStoppedError if it is refused."""
        lab = self.lab
        prompt = self._says(Prompt.of("Ask me which colour I like.", reply))
        body = {
            "engine": lab.contract.engine, "prompt": prompt.text, "execution_mode": Mode.INTERACTIVE.value,
            "model": lab.contract.hermetic.model, "session_timeout_sec": timeout, "workspace": str(self._workspace),
            "engine_options": [lab.sandbox.fill(token) for token in lab.contract.hermetic.options], **more,
        }  # fmt: skip
        call = self._client.post("/v1/runs", body, self._name("create"))
        if "links" not in call.document:
            raise CaseStoppedError(f"no run was created: {call.said()}", by_engine=True)
        self.run = call.document

    def settle(self, step: str) -> dict[str, Any]:
        """Wait until the run is neither queued nor running, or for too long; notes it and its new turns."""
        told = self.follow(step)
        self._note_turns(told)
        return self.run

    def follow(self, step: str, states: tuple[str, ...] = _UNSETTLED) -> list[dict[str, Any]]:
        """Wait while the run is in these states, or for too long; notes it, and gives what is told of its turns."""
        deadline, pause = time.monotonic() + TURN_LIMIT + SPARE, _FIRST_LOOK
        path = self.run["links"]["self"]
        while self._client.get(path).document.get("state") in states and time.monotonic() < deadline:
            self.lab.interrupt.wait(pause)
            pause = min(pause * 1.5, _LATEST_LOOK)
        self.run |= self.show(step).document
        turns = self._client.get(self.run["links"]["turns"], self._name(f"{step}-turns")).document.get("turns", [])
        return list(turns)

    def show(self, step: str) -> Call:
        """Read the run."""
        return self._client.get(self.run["links"]["self"], self._name(step))

    def question(self, step: str) -> str:
        """Read the question; gives its id, CaseStoppedError if there is none."""
        call = self._client.get(self.run["links"]["interaction"], self._name(step))
        pending = call.document.get("pending")
        if not pending:
            raise CaseStoppedError(f"the run asks nothing: {self._standing()}", by_engine=True)
        return str(pending["interaction_id"])

    def reply(self, step: str, question: str, prompt: Prompt, key: str | None = None) -> Call:
        """Answer a question."""
        self._says(prompt)
        return self._reply(step, question, prompt, key)

    def race(self, step: str, question: str, prompts: list[Prompt], key: str | None = None) -> list[Call]:
        """Answer a question many times at once, by as many prompts; the one that was taken is the next turn's."""
        self.lab.sandbox.backend.script(Rule(prompts[0].reply))
        with ThreadPoolExecutor(len(prompts)) as pool:
            asked = [
                pool.submit(self._reply, f"{step}-{i}", question, prompt, key) for i, prompt in enumerate(prompts, 1)
            ]
        calls = [each.result() for each in asked]
        taken = [prompt for prompt, call in zip(prompts, calls, strict=True) if "links" in call.document]
        self._prompts += taken[:1] or prompts[:1]
        return calls

    def until_asked(self) -> None:
        """Wait until the model was sent the prompt; CaseStoppedError if it never is."""
        deadline, nonce = time.monotonic() + TURN_LIMIT, self._prompts[-1].nonce
        while not any(nonce in each.nonces for each in self.lab.sandbox.backend.exchanges()):
            self.lab.interrupt.wait(_FIRST_LOOK)
            if time.monotonic() > deadline:
                what = f"the model was asked nothing in {TURN_LIMIT} s: {self._standing()}"
                raise CaseStoppedError(what, by_engine=True)

    def cancel(self, step: str) -> Call:
        """Cancel the run."""
        return self._client.post(self.run["links"]["cancel"], {}, self._name(step))

    def forget_sessions(self) -> None:
        """Make the home directory as it was before the first turn, so that no session is left in it."""
        # moved, since what still writes to it may keep it from being removed
        self.lab.sandbox.home.rename(self.lab.sandbox.root / "home-before")
        self.lab.sandbox.furnish(self.lab.contract.hermetic)

    @property
    def _workspace(self) -> Path:
        return self.lab.sandbox.work.resolve()

    def _name(self, step: str) -> str:
        return f"{self.lab.case}/{step}"

    def _says(self, prompt: Prompt) -> Prompt:
        self._prompts.append(prompt)
        self.lab.sandbox.backend.script(Rule(prompt.reply))
        return prompt

    def _reply(self, step: str, question: str, prompt: Prompt, key: str | None) -> Call:
        body = {"interaction_id": question, "response": prompt.text}
        return self._client.post(self.run["links"]["reply"], body, self._name(step), key=key)

    def _standing(self) -> str:
        error = self.run.get("error") or {}
        return ": ".join(str(word) for word in (self.run.get("state"), *error.values()) if word)

    def _note_turns(self, told: list[dict[str, Any]]) -> None:
        """Note the engine's starts since the last time, each with what the server says of that turn."""
        exchanges = self.lab.sandbox.backend.exchanges()
        for i, start in list(enumerate(self.shim.starts(self._workspace)))[self._turns_seen :]:
            prompt = self._prompts[min(i, len(self._prompts) - 1)]
            said = told[i] if i < len(told) else {}
            self.lab.note(turn_of(self.lab, i + 1, start, prompt, self.run, said, exchanges[self._requests_seen :]))
            self._turns_seen = i + 1
        self._requests_seen = len(exchanges)


def server_case(play: Callable[[ServerRun], None], *, hide: bool = False) -> Callable[[EngineDriver], None]:
    """Make the story of a case out of what is done on a server; `hide`: the engine's output lacks session ids."""

    def visit(lab: EngineDriver) -> None:
        with lab.slot(), _opened(lab, hide=hide) as opened:
            play(opened)

    return visit


@contextmanager
def _opened(lab: EngineDriver, *, hide: bool) -> Iterator[ServerRun]:
    visit = ServerRun(lab, install(lab.contract, lab.executable, lab.sandbox.root, hide=hide))
    try:
        visit.open()
        yield visit
    finally:
        visit.close()
