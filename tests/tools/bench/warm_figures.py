"""How fast a reply is answered by the process that a waiting run has kept, compared with a new process."""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.probes import engines
from tests.tools.bench.form import Tally
from tests.tools.bench.rows import Measured, Row, Target, measured
from tests.tools.bench.served import CREATE, Served, question, reply, send_reply, serving_release
from turngate.contract.engine_contract import EngineContract
from turngate_probes.harness.driver import ASK, FINAL
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.stub_model import StubRule

ENGINES = ("codex", "gemini", "opencode")
PEER = "the same reply in a new process"
ROWS = tuple(
    Row(f"warm.{engine}", f"A reply to a process that {engine} kept, through `turngate serve`", "s", PEER, Target(0.12))
    for engine in ENGINES
)
REPLIES = Tally(full=9, short=1)
WAIT = 600  # seconds for which the server keeps a process
ENDS = "that is all"
LIVING, NEW = "living_process", "new_process"


def bench(*, short: bool) -> Iterator[Measured]:
    """Reply alternately to two runs on one server, of which only one keeps its process."""
    for engine in ENGINES:
        contract, executable = engines.pinned_release(engine)
        with (
            tempfile.TemporaryDirectory() as folder,
            sandbox(contract.hermetic, Path(folder), f"warm-{engine}", keep=False) as box,
            serving_release(contract, executable, box, "--warm-wait", str(WAIT)) as served,
        ):
            box.backend.script(StubRule(FINAL, contains=ENDS), StubRule(ASK))
            runs = [_Run(served, contract, LIVING), _Run(served, contract, NEW, warm_wait_sec=0)]
            for _ in range(REPLIES.of(short=short)):
                for run in runs:
                    run.turn()
            for run in runs:
                run.end()
        yield measured(f"warm.{engine}", *(run.seconds for run in runs))


class _Run:
    """A waiting run, and how many seconds each reply took until the next question."""

    def __init__(self, served: Served, contract: EngineContract, delivery: str, **more: int) -> None:
        """Create a run whose replies go to this kind of process, and wait for its first question."""
        self.served, self.delivery = served, delivery
        wanted = {"engine": contract.engine, "model": contract.hermetic.model, "session_timeout_sec": WAIT, **more}
        _, run = served.ask("POST", "/v1/runs", CREATE | wanted)
        self.id = run["run_id"]
        self.seconds: list[float] = []
        self._asked = served.until(self.id, "waiting_user")

    def turn(self) -> None:
        """Reply, and wait for the next question."""
        interaction_id = question(self.served, self.id)
        start = time.perf_counter()
        send_reply(self.served, self.id, interaction_id, "blue")
        self._asked = self.served.until(self.id, "waiting_user", after=self._asked)
        self.seconds.append(time.perf_counter() - start)

    def end(self) -> None:
        """Let the run end; RuntimeError if a reply went to another kind of process."""
        reply(self.served, self.id, ENDS)
        self.served.until(self.id, "succeeded", after=self._asked)
        reported = self.served.text(f"/v1/runs/{self.id}/events").splitlines()
        events = [json.loads(line.removeprefix("data: ")) for line in reported if line.startswith("data: ")]
        went = [event["delivery"] for event in events if "delivery" in event]
        if went != [NEW, *[self.delivery] * (len(self.seconds) + 1)]:
            raise RuntimeError(f"replies for a {self.delivery} went to {went}")
