"""The runs of a fleet, for whoever starts them and answers their questions, from any machine."""

import time
import uuid
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from dbos import DBOSClient, WorkflowStatus, error

from turngate import Outcome, TurnInput, TurnOutput, UsageError

NEW = "new"  # the queue of first turns
VERSION = "1"  # of the workflow: workers take only turns of their own
POLL = 0.2  # seconds between two looks into a queue or at a run
_STATES = {"ENQUEUED": "queued", "DELAYED": "queued", "PENDING": "running", "CANCELLED": "canceled", "ERROR": "failed"}
_OUTCOMES = {Outcome.ASK_USER: "waiting_user", Outcome.FINAL: "succeeded", Outcome.ERROR: "failed"}


def queue_of(host: str) -> str:
    """Return the queue of the turns that only this host can run."""
    return f"host-{host}"


class Run(NamedTuple):
    """A run after its latest turn; `host` has its session, and `output` is None until the turn has ended."""

    id: str
    turn: int
    state: str
    host: str
    input: TurnInput
    output: TurnOutput | None
    error: str


class Fleet:
    """A client of the fleet; `url` is that of its database."""

    def __init__(self, url: str) -> None:
        self._client = DBOSClient(system_database_url=url)

    def register(self, host: str, slots: int) -> None:
        """Declare the queues that a host takes turns from, `slots` at once from each."""
        for queue in (NEW, queue_of(host)):
            self._client.register_queue(queue, worker_concurrency=slots, polling_interval_sec=POLL)

    def start(self, turn: TurnInput, host: str = "") -> str:
        """Start a run on any host, or on one; return its id."""
        run = uuid.uuid4().hex[:12]
        turn = msgspec.structs.replace(turn, workspace=turn.workspace or run)
        self._enqueue(queue_of(host) if host else NEW, f"{run}.1", turn)
        return run

    def reply(self, run: Run, message: str) -> None:
        """Answer the question of a run; UsageError: somebody else has, or none is open."""
        if run.state != "waiting_user" or run.output is None:
            raise UsageError(f"run {run.id} is {run.state} and waits for no reply")
        try:
            self._enqueue(queue_of(run.host), f"{run.id}.{run.turn + 1}", run.input.reply(message, run.output))
        except error.DBOSWorkflowIDInUseError as taken:
            raise UsageError(f"the question of run {run.id} was already answered") from taken

    def find(self, run: str) -> Run:
        """Return a run; UsageError: there is none."""
        for found in _latest(self._client.list_workflows(workflow_id_prefix=f"{run}.")):
            return found
        raise UsageError(f"there is no run {run}")

    def recent(self, limit: int = 1000) -> list[Run]:
        """Return the runs of the latest turns, newest first."""
        return _latest(self._client.list_workflows(limit=limit, sort_desc=True))

    def on_host(self, host: str) -> list[Run]:
        """Return all runs whose session is on a host, or whose next turn waits for it."""
        ran = self._client.list_workflows(executor_id=host)
        return _latest([*ran, *self._client.list_workflows(queue_name=queue_of(host))])

    def wait(self, run: str, turn: int = 0) -> Run:
        """Wait until a turn after this one has ended, and return the run."""
        while True:
            found = self.find(run)
            if found.turn > turn and found.state not in {"queued", "running"}:
                return found
            time.sleep(POLL)

    def cancel(self, run: Run) -> None:
        """Cancel the turn of a run that is queued or running; its worker ends the engine within a second."""
        self._client.cancel_workflow(f"{run.id}.{run.turn}")

    def begun(self, host: str) -> list[str]:
        """Return the turns that a host began and has not ended."""
        return [turn.workflow_id for turn in self._client.list_workflows(executor_id=host, status="PENDING")]

    def take_back(self, host: str, turns: list[str]) -> None:
        """Queue turns that a host began for this host only: another one has neither their sessions nor their files."""
        if turns:
            self._client.resume_workflows(turns, queue_name=queue_of(host))

    def is_free(self, host: str) -> bool:
        """Return whether no turn waits for a host or runs there."""
        queue = queue_of(host)
        return not self._client.list_workflows(queue_name=queue, status=["ENQUEUED", "PENDING"], limit=1)

    def canceled(self, turns: Iterable[str]) -> list[str]:
        """Return those of some turns that were canceled."""
        found = self._client.list_workflows(workflow_ids=[*turns], status="CANCELLED")
        return [turn.workflow_id for turn in found]

    def _enqueue(self, queue: str, turn: str, order: TurnInput) -> None:
        self._client.enqueue(
            {
                "workflow_name": "turn",
                "queue_name": queue,
                "workflow_id": turn,
                "workflow_id_reuse_policy": "reject",
                "app_version": VERSION,
            },
            order.to_json(),
        )


def _latest(workflows: Iterable[WorkflowStatus]) -> list[Run]:
    """Return the run of each workflow, by its latest turn."""
    latest: dict[str, Run] = {}
    for workflow in workflows:
        run = _run(workflow)
        if run.id not in latest or latest[run.id].turn < run.turn:
            latest[run.id] = run
    return [*latest.values()]


def _run(workflow: WorkflowStatus) -> Run:
    run, _, turn = workflow.workflow_id.rpartition(".")
    order = TurnInput.from_json(workflow.input["args"][0] if workflow.input else "")
    output = TurnOutput.from_json(workflow.output) if workflow.status == "SUCCESS" and workflow.output else None
    state = _OUTCOMES[output.result.outcome] if output else _STATES.get(workflow.status, "failed")
    why = output.result.failure_reason if output else workflow.error and f"ORCHESTRATOR_ERROR: {workflow.error}"
    return Run(run, int(turn), state, workflow.executor_id or "", order, output, why or "")
