"""A client of a soak: runs one conversation after the other, times each request, and checks its answer."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any, NamedTuple

from tests.tools.bench.served import PATIENCE, Served
from tests.tools.soak.figures import Figures

ENGINES = ("codex", "gemini")
PROFILES = ("resumable", "sticky_process")
REPLIES = {"choose_one": "red"}  # other questions are asked for permission, and get their first option
NOBODY = "20260101T000000Z-codex-aaaaaaaa"


class UnexpectedAnswerError(Exception):
    """An answer that a working server would not give."""


class Event(NamedTuple):
    """A change of a run's state, with its place among the run's events."""

    id: int
    state: str


class Client:
    """Works until it is stopped; its actions follow from its random numbers."""

    def __init__(self, served: Served, figures: Figures, random: Random, stop: threading.Event) -> None:
        self._served, self._figures, self._random, self._stop = served, figures, random, stop

    def work(self) -> None:
        """Run conversations; an error is counted in the figures, and the next conversation begins."""
        while not self._stop.is_set():
            try:
                self._conversation()
                self._look_around()
            except Exception as error:  # noqa: BLE001 - a client that is lost would load nothing, and say nothing
                self._figures.error(f"{type(error).__name__}: {error}")

    def _conversation(self) -> None:
        profile = self._random.choice(PROFILES)
        request = {
            "engine": self._random.choice(ENGINES),
            "prompt": "Which colour should the door have?",
            "execution_mode": "interactive",
            "interactive_profile": profile,
        }
        key = f"{self._random.getrandbits(64):x}"
        run = self._ask("create run", "POST", "/v1/runs", 202, request, key=key)
        if self._random.random() < 0.1:
            again = self._ask("create run again", "POST", "/v1/runs", 202, request, key=key)
            _expect(again["run_id"] == run["run_id"], "the same key created a second run")
        path, canceled = f"/v1/runs/{run['run_id']}", self._random.random() < 0.15
        if canceled and self._random.random() < 0.5:
            self._cancel(path, after=0)
            return
        event = self._turn(f"first turn, {profile}", path, after=0)
        while event.state == "waiting_user":
            if canceled:
                self._cancel(path, event.id)
                return
            self._reply(path)
            event = self._turn(f"next step, {profile}", path, event.id)
        shown = self._ask("show run", "GET", path, 200)
        _expect(event.state == shown["state"] == "succeeded", f"a run {event.state}: {shown['error']}")
        _expect(shown["interactive_profile"]["kind"] == profile, f"a run was no {profile}")
        turns = self._ask("list turns", "GET", f"{path}/turns", 200)["turns"]
        _expect(len(turns) == shown["turn_index"], f"{len(turns)} turns of {shown['turn_index']} are listed")
        self._figures.run_finished()

    def _reply(self, path: str) -> None:
        asked = self._ask("show question", "GET", f"{path}/interaction", 200)["pending"]
        response = REPLIES.get(asked["kind"]) or asked["options"][0]
        body = {"interaction_id": asked["interaction_id"], "response": response}
        key = f"{self._random.getrandbits(64):x}"
        for _ in range(1 + (self._random.random() < 0.1)):
            self._ask("reply", "POST", f"{path}/interaction/reply", 202, body, key=key)

    def _cancel(self, path: str, after: int) -> None:
        self._ask("cancel", "POST", f"{path}/cancel", 202)
        with self._figures.timed("cancel, until ended"):
            event = self._until(path, after, "canceled")
        _expect(event.state == "canceled", f"a canceled run {event.state}")

    def _look_around(self) -> None:
        """Read everything that any client may read, and send requests that must be rejected."""
        looks = (
            ("health", "GET", "/healthz", 200, None),
            ("ready", "GET", "/readyz", 200, None),
            ("list engines", "GET", "/v1/engines", 200, None),
            ("list runs", "GET", "/v1/runs?limit=20&state=succeeded", 200, None),
            ("refused: no such run", "GET", f"/v1/runs/{NOBODY}", 404, None),
            ("refused: no such engine", "POST", "/v1/runs", 422, {"engine": "nobody", "prompt": "?"}),
            ("refused: unknown member", "POST", "/v1/runs", 422, {"engine": "codex", "prompt": "?", "else": 1}),
        )
        for look in self._random.sample(looks, 2):
            self._ask(*look)

    def _ask(self, operation: str, method: str, path: str, status: int, body: Any = None, *, key: str = "") -> Any:
        """Make a request that must return this status; return the document."""
        headers = {"Idempotency-Key": key} if key else {}
        with self._figures.timed(operation):
            got, document = self._served.ask(method, path, body, **headers)
        _expect(got == status, f"{operation}: {got} {document.get('code', '')} instead of {status}")
        return document

    def _turn(self, operation: str, path: str, after: int) -> Event:
        with self._figures.timed(operation):
            return self._until(path, after, "waiting_user", "succeeded", "failed", "canceled")

    def _until(self, path: str, after: int, *states: str) -> Event:
        """Follow a run's events until it is in one of these states."""
        with self._following(path, after) as events:
            for event in events:
                if event.state in states:
                    return event
        raise UnexpectedAnswerError(f"a stream of events ended before {' or '.join(states)}")

    @contextmanager
    def _following(self, path: str, after: int) -> Iterator[Iterator[Event]]:
        with closing(http.client.HTTPConnection("127.0.0.1", self._served.port, timeout=PATIENCE)) as connection:
            connection.request("GET", f"{path}/events", headers={"Last-Event-ID": str(after)})
            answer = connection.getresponse()
            _expect(answer.status == 200, f"follow events: {answer.status}")
            with closing(answer):
                yield _states(answer)


def _states(answer: http.client.HTTPResponse) -> Iterator[Event]:
    number, kind = 0, ""
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            number = int(value)
        elif name == "event":
            kind = value
        elif name == "data" and kind == "state":
            yield Event(number, json.loads(value)["state"])


def _expect(condition: bool, text: str) -> None:  # noqa: FBT001 - the condition is what is expected
    if not condition:
        raise UnexpectedAnswerError(text)
