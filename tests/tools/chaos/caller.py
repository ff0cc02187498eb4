"""The client of a round: creates its runs, follows their events, replies and cancels, across server restarts."""

import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE
from tests.tools.chaos.client import RunStream, ServerGoneError, StreamedEvent, ask
from tests.tools.chaos.life import Life
from tests.tools.chaos.plan import PlannedRun, Round

ENDED = frozenset(("succeeded", "failed", "canceled"))
RETRY = 0.1
_UNAVAILABLE = 503


@dataclass
class Reply:
    """A reply: `turn` is the turn it starts, None for a permission; `status` 0 means no answer came yet."""

    interaction_id: str
    turn: int | None
    response: str
    key: str
    status: int = 0


@dataclass
class CallerRun:
    """What the client knows about a run."""

    planned: PlannedRun
    run_id: str = ""
    state: str = ""
    turn: int = 0
    question: dict[str, Any] = field(default_factory=dict)
    events: list[StreamedEvent] = field(default_factory=list)
    replies: dict[str, Reply] = field(default_factory=dict)
    cancel_status: int = 0
    stream: RunStream | None = None
    not_before: float = 0.0

    @property
    def last_id(self) -> int:
        """The id of the last received event."""
        return self.events[-1].id if self.events else 0

    def take(self, event: StreamedEvent) -> None:
        """Process an event."""
        self.events.append(event)
        if event.type == "state":
            self.state, self.turn = event.data["state"], event.data["turn_index"]
        elif event.type == "interaction":
            self.question = event.data
        elif event.type == "reply.returned":  # it was not sent, and its key may be used again
            self.replies.pop(event.data["interaction_id"], None)
            self.not_before = time.monotonic() + RETRY


class ChaosCaller:
    """The client of all runs of a round; `broken` collects the promises that the server broke."""

    def __init__(self, planned: Round) -> None:
        self.runs = [CallerRun(run) for run in planned.runs]
        self.broken: list[str] = []
        self._key = f"{planned.seed}-{planned.number}"
        self._patience = planned.patience
        self._may_be_unavailable = bool(planned.fault) or planned.interruption == "SIGTERM"

    def drive(self, life: Life, *, finish: bool) -> bool:
        """Do what the runs need until all are at rest; False if the server ended before.

        `finish`: reply to the runs that were left waiting, too.
        """
        last = time.monotonic() + self._patience
        try:
            while not life.is_gone:
                waiting = [run for run in self.runs if not self._rests(run, finish=finish)]
                if not waiting:
                    return True
                if time.monotonic() > last:
                    stuck = ", ".join(f"{run.planned.name} ({run.state or 'not created'})" for run in waiting)
                    self.broken.append(f"no run is stuck: {stuck}, after {self._patience:.0f} s")
                    return True
                for run in waiting:
                    if time.monotonic() >= run.not_before:
                        self._act(life.port, run, finish=finish)
                self._listen()
        except TimeoutError:
            self.broken.append(f"every request is answered: one was not, within {PATIENCE:.0f} s")
        finally:
            self._leave()
        return not life.is_gone

    def _rests(self, run: CallerRun, *, finish: bool) -> bool:
        if run.run_id and run.state in ENDED:
            return not any(reply.status == 0 for reply in run.replies.values())
        return run.state == "waiting_user" and run.planned.left and not finish and not run.replies

    def _act(self, port: int, run: CallerRun, *, finish: bool) -> None:
        """Make the next request for a run; it is repeated later if no answer comes."""
        try:
            if not run.run_id:
                self._create(port, run)
            elif run.stream is None:
                run.stream = RunStream(port, run.run_id, run.last_id)
            elif self._cancels(run):
                run.cancel_status = self._cancel(port, run)
            elif reply := self._due(run, finish=finish):
                self._reply(port, run, reply)
        except ServerGoneError:
            run.not_before = time.monotonic() + RETRY

    def _create(self, port: int, run: CallerRun) -> None:
        planned = run.planned
        body: dict[str, Any] = {
            "engine": "codex",
            "prompt": planned.prompt(1),
            "session_timeout_sec": planned.timeout,
            "execution_mode": "interactive" if planned.profile else "auto",
        }
        body |= {"interactive_profile": planned.profile} if planned.profile else {}
        body |= {"model": planned.model} if planned.model else {}
        status, document = ask(port, "POST", "/v1/runs", body, f"{self._key}-{planned.name}")
        if self._is_answered(run, "a run is created", status, document, 202):
            run.run_id = document["run_id"]
            if planned.cancel == "queued":
                run.cancel_status = self._cancel(port, run)

    def _cancels(self, run: CallerRun) -> bool:
        wanted = run.planned.cancel
        return bool(wanted) and not run.cancel_status and wanted in {run.state, "queued"}

    def _cancel(self, port: int, run: CallerRun) -> int:
        status, document = ask(port, "POST", f"/v1/runs/{run.run_id}/cancel")
        # 409: it has ended otherwise
        return status if self._is_answered(run, "a run is canceled", status, document, 202, 409) else 0

    def _due(self, run: CallerRun, *, finish: bool) -> Reply | None:
        """Return the reply to make now."""
        for reply in run.replies.values():
            if reply.status == 0:
                return reply
        if run.state != "waiting_user" or (run.planned.left and not finish) or run.planned.cancel == "waiting_user":
            return None
        interaction_id = run.question["interaction_id"]
        if interaction_id in run.replies:
            return None
        permission = run.question["kind"] == "risk_ack"
        response = run.question["options"][0] if permission else run.planned.prompt(run.turn + 1)
        turn = None if permission else run.turn + 1
        reply = Reply(interaction_id, turn, response, f"{self._key}-{interaction_id}")
        run.replies[interaction_id] = reply
        return reply

    def _reply(self, port: int, run: CallerRun, reply: Reply) -> None:
        path = f"/v1/runs/{run.run_id}/interaction/reply"
        body = {"interaction_id": reply.interaction_id, "response": reply.response}
        status, document = ask(port, "POST", path, body, reply.key)
        # 409: the run has ended, as sticky ones do when the server does
        if not self._is_answered(run, "a reply is taken", status, document, 202, 409):
            return
        reply.status = status
        if status == 202 and run.planned.again:
            status, same = ask(port, "POST", path, body, reply.key)
            if status != _UNAVAILABLE and (status, same) != (202, document):
                self.broken.append(f"the same reply with its key gets the same answer: {run.planned.name} got {status}")
            status, _ = ask(port, "POST", path, body)
            if status not in (409, _UNAVAILABLE):
                self.broken.append(f"a second reply is refused: {run.planned.name} got {status}")

    def _is_answered(self, run: CallerRun, what: str, status: int, document: Any, *allowed: int) -> bool:
        """Whether a request got an allowed answer; 503 means that it must be repeated."""
        if status in allowed:
            return True
        run.not_before = time.monotonic() + RETRY
        if status != _UNAVAILABLE or not self._may_be_unavailable:
            run.not_before = float("inf")
            self.broken.append(f"{what}: {run.planned.name} got {status} {document}")
        return False

    def _listen(self) -> None:
        """Process the events that arrive within a moment."""
        streams = {run.stream.socket: run for run in self.runs if run.stream and not run.stream.ended}
        for run in self.runs:
            if run.stream and run.stream.ended and run.state not in ENDED:
                run.stream, run.not_before = None, time.monotonic() + RETRY
        for ready in select.select(list(streams), [], [], RETRY / 4)[0]:
            run = streams[ready]
            for event in run.stream.read() if run.stream else ():
                run.take(event)

    def _leave(self) -> None:
        """Read the remaining events from an ended server's streams, and close them."""
        for run in self.runs:
            if run.stream is not None:
                for event in self._rest(run.stream):
                    run.take(event)
                run.stream.close()
                run.stream = None

    def _rest(self, stream: RunStream) -> Iterator[StreamedEvent]:
        while not stream.ended and select.select([stream.socket], [], [], 0)[0]:
            yield from stream.read()
