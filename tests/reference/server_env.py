"""A server without HTTP, using the engines of a test environment, and a caller's actions on it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from tests.reference.commanded import created, replied
from turngate_reference.data_dir import DataDir
from turngate_reference.server.app import Server, ServerSettings
from turngate_reference.server.requests import ContinueRequest, IdempotencyKey
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import StateEvent
from turngate_reference.server.store.runs import Accepted, Run, StoredQuestion
from turngate_reference.states import ENDED, RunError, State

ASK = json.dumps(
    {
        "outcome": "ask_user",
        "interaction": {
            "kind": "choose_one",
            "prompt": "Which colour?",
            "options": ["red", "blue"],
            "required_fields": [],
            "context": {"why": "paint"},
        },
    }
)


def final(**data: Any) -> str:
    """Return the envelope that ends a run."""
    return json.dumps({"outcome": "final", "final_data": data})


@dataclass
class ServerEnv:
    """A server that can be opened and closed, and a way to wait for its runs."""

    cli_env: CliEnv
    settings: ServerSettings
    server: Server = field(init=False)

    def open(self, **changes: Any) -> Server:
        """Open the server."""
        self.settings = replace(self.settings, **changes)
        self.server = Server(self.settings)
        self.server.start()
        return self.server

    @contextmanager
    def opened(self, **changes: Any) -> Iterator[Server]:
        """Open the server for a block."""
        server = self.open(**changes)
        try:
            yield server
        finally:
            server.close()

    def create(self, prompt: str = "paint it", *, engine: str = "codex", key: str | None = None, **more: Any) -> str:
        """Create a run; return its id."""
        return created(self.server, {"engine": engine, "prompt": prompt, **more}, key).run_id

    def ask(self, **more: Any) -> tuple[str, StoredQuestion]:
        """Create an interactive run, and wait for its question."""
        run_id = self.create(execution_mode="interactive", **more)
        return run_id, self.question(run_id)

    def question(self, run_id: str) -> StoredQuestion:
        """Wait until a run asks; return the question."""
        run = self.wait(run_id, State.WAITING_USER)
        question = runs.question(self.server.store, run.pending_interaction_id or "")
        assert question
        return question

    def reply(self, run_id: str, question: StoredQuestion, response: str = "red", key: str | None = None) -> Accepted:
        """Reply to a question."""
        body = {"interaction_id": question.interaction_id, "response": response}
        return replied(self.server, run_id, body, key)

    def go_on(self, run_id: str, message: str = "use an envelope", key: str | None = None) -> Accepted:
        """Continue a run that has ended."""
        return self.server.commands.continue_run(
            run_id, ContinueRequest(message), IdempotencyKey.of(key, {"message": message})
        )

    def run(self, run_id: str) -> Run:
        """Read a run."""
        run = runs.find(self.server.store, run_id)
        assert run
        return run

    def wait(self, run_id: str, *states: State) -> Run:
        """Wait until a run is in one of these states; fail if it ends in another one."""
        deadline, after = time.monotonic() + PATIENCE, 0
        while (run := self.run(run_id)).state not in (*states, *ENDED):
            assert self.server.store.wait_for_event(run_id, after, deadline - time.monotonic()), run
            after = runs.events(self.server.store, run_id, after, 1000)[-1].id
        assert run.state in states, run
        return run

    def wait_for_event(self, run_id: str, kind: str, turn: int) -> None:
        """Wait until an event of this type tells of this turn."""
        deadline, after = time.monotonic() + PATIENCE, 0
        while True:
            for event in runs.events(self.server.store, run_id, after, 1000):
                after = event.id
                if event.type == kind and event.as_dict().get("turn_index") == turn:
                    return
            assert self.server.store.wait_for_event(run_id, after, deadline - time.monotonic()), (run_id, kind)

    def wait_for_state(self, run_id: str, state: str, *, times: int) -> None:
        """Wait until a run has been in a state so often."""
        deadline, after, seen = time.monotonic() + PATIENCE, 0, 0
        while seen < times:
            assert self.server.store.wait_for_event(run_id, after, deadline - time.monotonic()), self.states(run_id)
            for event in runs.events(self.server.store, run_id, after, 1000):
                after = event.id
                seen += isinstance(event.data, StateEvent) and event.data.state == state

    def states(self, run_id: str) -> list[str]:
        """List the states that a run has been in."""
        return [e.data.state for e in runs.events(self.server.store, run_id, 0, 1000) if isinstance(e.data, StateEvent)]

    def failed(self, run_id: str) -> RunError:
        """Wait until a run has failed; return its error."""
        error = self.wait(run_id, State.FAILED).error
        assert error
        return error

    def keep_session(self, session: str = d.SESSION) -> Path:
        """Create a session file in Codex's store."""
        return self.cli_env.keep_session(session)


def server_env(cli_env: CliEnv) -> ServerEnv:
    """Return a server in an environment, not yet opened."""
    home = cli_env.root / "home"
    home.mkdir(exist_ok=True)
    env = {"PATH": f"{cli_env.path}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    return ServerEnv(cli_env, ServerSettings(DataDir(cli_env.data), slots=2, env=env))
