"""Runs on a private server, in the sandbox of a case: the actions of a caller, and the observations."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from turngate import AdapterTurnResult, Ended, Mode, Outcome, read_turn
from turngate.argv.interactive import read_options
from turngate.argv.trust import declares_unsafe
from turngate.contract.home_and_workspace import ToolUse
from turngate.process.family import leftover, tagged
from turngate.process.sessions import Leftover
from turngate_probes.harness.driver import FINAL, Ask, EngineDriver, ask
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.observations import ServerCall, Turn
from turngate_probes.harness.server_calls import UNSAFE
from turngate_probes.server_level.server_process import (
    READY_WITHIN,
    CaseClient,
    ServerProcess,
    other_request,
    read_token,
    request,
)
from turngate_probes.server_level.shim import EngineStart, Shim
from turngate_probes.stub_model import Exchange, Reply, StubRule

_PARTS = 3  # a line of a trace: the time, the direction, the message
TURN_LIMIT = 120
SPARE = 30.0  # seconds beyond the limit of a turn, in which the server must report its result
GONE_WITHIN = 10.0
_FIRST_LOOK, _LATEST_LOOK = 0.02, 0.5
ACCEPTED = 202
OK = 200
_UNSETTLED = ("queued", "running")
_UNENDED = (*_UNSETTLED, "waiting_user")


def saved(data: Path, run_id: str, number: int, stream: str) -> bytes:
    """Return the output of an engine that the server saved in a turn; empty if it saved none."""
    with suppress(OSError):
        return (data / "runs" / run_id / ".turngate" / f"attempt-{number:03}" / stream).read_bytes()
    return b""


def protocol(data: Path, run_id: str, number: int) -> bytes:
    """Return the trace of the newest process that was kept, up to a turn; empty if none was."""
    traces = (saved(data, run_id, earlier, "protocol") for earlier in range(number, 0, -1))
    return next(filter(None, traces), b"")


def printed(trace: bytes) -> bytes:
    """Return the output of a sticky process from the trace of its protocol."""
    lines = (line.split(b" ", 2) for line in trace.splitlines(keepends=True))
    return b"".join(line[2] for line in lines if line[1:2] == [b"<"] and len(line) == _PARTS)


def alive(tag: str) -> tuple[Leftover, ...]:
    """Return the processes of a turn that still run."""
    own = {tag.rpartition("/")[2]}  # after the tags of the runs around it
    return tuple(leftover(process, survived=True) for process in tagged(own))


def how_ended(run: dict[str, Any], turn: dict[str, Any], *, sticky: bool) -> Ended:
    """Return how a turn ended, according to the run and the turn in the API."""
    if (turn.get("failure") or {}).get("code") == "TURN_TIMEOUT":
        return Ended.TIMEOUT
    if run.get("state") == "canceled":
        return Ended.STOPPED
    went_well = turn.get("outcome") in (Outcome.ASK_USER, Outcome.FINAL)
    return Ended.LINGERED if went_well and turn.get("exit_code") is None and not sticky else Ended.EXIT


class UnsafeRunError(CaseStoppedError):
    """The server rejects a run in which nothing keeps the engine from acting unasked."""


class ServerRun:
    """Creates, observes and replies to runs on one server, one after the other.

    Each request is recorded under the name of its step. With `sticky`, a run keeps its engine process between turns.
    """

    _server: ServerProcess
    _client: CaseClient

    def __init__(self, driver: EngineDriver, shim: Shim, sticky: bool = False) -> None:  # noqa: FBT001, FBT002
        self.driver, self.shim, self.sticky = driver, shim, sticky
        self.run: dict[str, Any] = {}
        self._servers = self._turns_noted = self._requests_seen = 0
        self._asked: list[Ask] = []
        self._earlier_starts = 0  # those of the runs before

    def open(self) -> None:
        """Start the server, with `sticky` behind a launcher that outlives it; CaseStoppedError if it does not start."""
        driver, hermetic, root = self.driver, self.driver.contract.hermetic, self.driver.sandbox.root
        env = driver.sandbox.env(hermetic, root)
        env["PATH"] = f"{self.shim.folder}:{env.get('PATH', '')}"
        self._servers += 1
        name = f"{driver.case}/serve-{self._servers}"
        if driver.server:
            asked = other_request(driver.server, root, env)
            self._server = ServerProcess(asked, driver.interrupt, name, is_other=True)
            self._server.__enter__()
            self._client = CaseClient(self._server.url, "", driver.note)
            self._until_ready()
            return
        # the server would not pass variables to the engine that the contract does not list
        unlisted = {"TURNGATE_SIMULATE_URL", *hermetic.env} - {
            *driver.contract.environment.passed,
            *driver.contract.environment.locations,
        }
        # in a sandbox an unsafe engine harms nobody, and the clauses tell what it does; of the others, a run in which
        # a setting outranks every option must be rejected
        unsafe = driver.contract.engine if declares_unsafe(driver.contract) else None
        asked = request(self._data, root, env, unlisted, behind=self.sticky, unsafe=unsafe)
        self._server = ServerProcess(asked, driver.interrupt, name)
        self._server.__enter__()
        self._client = CaseClient(self._server.url, read_token(self._data), driver.note)

    def close(self) -> None:
        """End the server."""
        self._end(self._server)

    def restart(self) -> None:
        """Kill the server without warning, and restart it before anything else ends its processes."""
        killed = self._server
        killed.kill()
        try:
            self.open()
        finally:
            self._end(killed)

    def create(
        self, reply: Reply, *, step: str = "create", timeout: int = TURN_LIMIT, tool: ToolUse | None = None, **more: Any
    ) -> None:
        """Create an interactive run; CaseStoppedError if it is rejected, UnsafeRunError if it is for safety.

        The model asks for `tool` before it replies.
        """
        driver, contract = self.driver, self.driver.contract
        self._earlier_starts += len(self._starts())
        self._asked, self._turns_noted = [], 0
        # of a server's callers it takes paths of the workspace alone
        options = [token.replace("{work}", ".").replace("{tmp}", ".") for token in contract.hermetic.options]
        if self.sticky:
            placed = read_options(contract, options)
            options = [token for p in placed if p.option.flag in contract.sticky.options for token in p.tokens]
            more["interactive_profile"] = "sticky_process"
        asked = replace(ask(reply), tool=tool)
        self._script(asked)
        body = {
            "engine": contract.engine,
            "prompt": asked.prompt,
            "execution_mode": Mode.INTERACTIVE.value,
            **({"model": contract.asked_model} if contract.asked_model else {}),
            "session_timeout_sec": timeout,
            "workspace": str(self._workspace),
            **({} if driver.server and not options else {"engine_options": options}),
            **more,
        }
        call = self._client.post("/v1/runs", body, f"{driver.case}/{step}")
        if call.status != ACCEPTED:
            rejected = UnsafeRunError if call.document.get("code") == UNSAFE else CaseStoppedError
            raise rejected(f"the run was rejected: {call.summary()}", by_engine=True)
        self.run = call.document
        if driver.server:
            path = f"/v1/runs/{self.run.get('run_id')}"
            parts = {"interaction": "interaction", "reply": "interaction/reply", "cancel": "cancel"}
            self.run["links"] = {"self": path} | {name: f"{path}/{part}" for name, part in parts.items()}

    def settle(self, step: str) -> None:
        """Wait until the run is neither queued nor running, or the deadline; record it and each new turn."""
        turns = self.follow(step)
        requests = self._new_requests()
        for i, start in list(enumerate(self._starts()))[self._turns_noted :]:
            asked = self._asked[min(i, len(self._asked) - 1)]
            self._note(f"turn-{i + 1}", i + 1, start, asked, turns[i] if i < len(turns) else {}, requests)
            self._turns_noted = i + 1

    @property
    def is_waiting(self) -> bool:
        """Whether the run waited for its user when it was last followed."""
        return self.run.get("state") == "waiting_user"

    def waits(self, step: str) -> None:
        """Wait until the run waits for its user; CaseStoppedError if it does not."""
        self.follow(step)
        if not self.is_waiting:
            raise CaseStoppedError(f"the run does not wait for its user: {self._standing()}", by_engine=True)

    def ends(self, step: str) -> float:
        """Wait until the run has ended and its process is gone, or the deadline; return the seconds.

        The server learns a little later than the system that a process is gone, and how it ended.
        """
        began = time.monotonic()
        self.follow(step, _UNENDED)
        seconds = time.monotonic() - began
        tag, deadline = self.process.tag, time.monotonic() + GONE_WITHIN
        while alive(tag) or any(turn["exit_code"] is None for turn in self._turns()[-1:]):
            self.driver.interrupt.wait(_FIRST_LOOK)
            if time.monotonic() > deadline:
                break
        return seconds

    def follow(self, step: str, states: tuple[str, ...] = _UNSETTLED) -> list[dict[str, Any]]:
        """Wait while the run is in these states, or until the deadline; record it, and return its turns in the API."""
        deadline, pause = time.monotonic() + TURN_LIMIT + SPARE, _FIRST_LOOK
        while self._get("self").state in states and time.monotonic() < deadline:
            self.driver.interrupt.wait(pause)
            pause = min(pause * 1.5, _LATEST_LOOK)
        self.run |= self.show(step).document
        return self._turns(f"{step}-turns")

    def show(self, step: str) -> ServerCall:
        """Read the run."""
        return self._get("self", step)

    def question(self, step: str) -> dict[str, Any]:
        """Read the question; CaseStoppedError if there is none."""
        pending = self._get("interaction", step).document.get("pending")
        if not pending:
            raise CaseStoppedError(f"the run has no question: {self._standing()}", by_engine=True)
        return dict(pending)

    def reply(self, step: str, question: dict[str, Any], asked: Ask) -> None:
        """Reply to a question; a tool that the model then asks for must be refused before it replies."""
        self._script(asked)
        self.answer(step, question, asked.prompt)

    def answer(self, step: str, question: dict[str, Any], text: str, key: str | None = None) -> ServerCall:
        """Reply to a question with exactly these words."""
        body = {"interaction_id": question["interaction_id"], "response": text}
        return self._client.post(self.run["links"]["reply"], body, f"{self.driver.case}/{step}", key=key)

    def race(self, step: str, question: dict[str, Any], replies: list[Ask], key: str | None = None) -> None:
        """Send many concurrent replies to a question; the accepted one starts the next turn."""
        self.driver.sandbox.backend.script(StubRule(replies[0].reply))
        with ThreadPoolExecutor(len(replies)) as pool:
            calls = [
                pool.submit(self.answer, f"{step}-{i}", question, asked.prompt, key)
                for i, asked in enumerate(replies, 1)
            ]
        taken = [asked for asked, call in zip(replies, calls, strict=True) if call.result().status == ACCEPTED]
        self._asked += taken[:1] or replies[:1]

    def until_asked(self) -> None:
        """Wait until the prompt was sent to the model; CaseStoppedError if it never is."""
        deadline, nonce = time.monotonic() + TURN_LIMIT, self._asked[-1].nonce
        while not any(nonce in request.nonces for request in self.driver.sandbox.backend.exchanges()):
            self.driver.interrupt.wait(_FIRST_LOOK)
            if time.monotonic() > deadline:
                what = f"the model received no request within {TURN_LIMIT} s: {self._standing()}"
                raise CaseStoppedError(what, by_engine=True)

    def cancel(self, step: str) -> None:
        """Cancel the run."""
        self._client.post(self.run["links"]["cancel"], {}, f"{self.driver.case}/{step}")

    def lose_session(self, step: str) -> None:
        """Restore the home directory from before the first turn, and start another session in it.

        The engine's store is there then, whatever its format is, and lacks only the session of the run.
        """
        # moved, because a process that still writes to it may prevent its removal
        self.driver.sandbox.home.rename(self.driver.sandbox.root / "home-before")
        self.driver.sandbox.furnish(self.driver.contract.hermetic)
        self._headless.start(step, ask(FINAL))
        self._new_requests()

    @property
    def process(self) -> EngineStart:
        """The first start of the engine for this run; CaseStoppedError if there is none."""
        starts = self._starts()
        if not starts:
            raise CaseStoppedError(f"the engine could not be started: {self._standing()}", by_engine=True)
        return starts[0]

    def kill_process(self) -> None:
        """Kill only the started process, as the system does when it runs out of memory."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)

    def note_turn(self, step: str, seconds: float | None = None) -> None:
        """Record the next turn of a process that is kept, with its processes that run now."""
        turns, number = self._turns(), self._turns_noted + 1
        described = turns[number - 1] if number <= len(turns) else {}
        if seconds is not None:
            described["seconds"] = seconds
        self._note(step, number, self.process, self._asked[-1], described, self._new_requests())
        self._turns_noted = number

    def note_further_starts(self) -> None:
        """Record each start of the engine for this run after the first one, as a separate turn."""
        for i, start in enumerate(self._starts()[1:], 2):
            self._note(f"start-{i}", 1, start, self._asked[-1], {}, ())

    @property
    def _headless(self) -> EngineDriver:
        """The driver for turns of which the server isn't told; they use the slot of the case."""
        return replace(self.driver, slot=lambda: nullcontext(lambda: None))

    @property
    def _workspace(self) -> Path:
        return self.driver.sandbox.work.resolve()

    @property
    def _data(self) -> Path:
        return self.driver.sandbox.root / "data"

    def _until_ready(self) -> None:
        """Wait until the server is healthy; CaseStoppedError if it never is."""
        deadline = time.monotonic() + READY_WITHIN
        while self._client.get("/healthz").status != OK:
            self.driver.interrupt.wait(_FIRST_LOOK)
            if time.monotonic() > deadline:
                raise CaseStoppedError(f"GET /healthz did not return 200 within {READY_WITHIN:.0f} s", by_engine=True)

    def _end(self, server: ServerProcess) -> None:
        server.__exit__(None, None, None)
        self.driver.note(server.page())

    def _get(self, link: str, step: str = "") -> ServerCall:
        return self._client.get(self.run["links"][link], step and f"{self.driver.case}/{step}")

    def _script(self, asked: Ask) -> None:
        self._asked.append(asked)
        rules = [StubRule(asked.reply)]
        if asked.tool:
            rules.insert(0, StubRule(self.driver.call_of(asked.tool), contains=asked.nonce, offers_tools=True, times=1))
        self.driver.sandbox.backend.script(*rules)

    def _turns(self, step: str = "") -> list[dict[str, Any]]:
        """Read the run's turns from the API; none if it has no such route."""
        if self.driver.server:
            return []
        return list(self._get("turns", step).document.get("turns", ()))

    def _standing(self) -> str:
        error = self.run.get("error") or {}
        return ": ".join(str(word) for word in (self.run.get("state"), *error.values()) if word)

    def _starts(self) -> list[EngineStart]:
        """Return the starts of the engine for this run."""
        return self.shim.starts(self._workspace)[self._earlier_starts :]

    def _new_requests(self) -> tuple[Exchange, ...]:
        """Return the model requests since the last call."""
        exchanges = self.driver.sandbox.backend.exchanges()
        new, self._requests_seen = exchanges[self._requests_seen :], len(exchanges)
        return new

    def _note(
        self,
        step: str,
        number: int,
        start: EngineStart,
        asked: Ask,
        described: dict[str, Any],
        requests: tuple[Exchange, ...],
    ) -> None:
        """Record a turn of the run, which the API describes by `described`."""
        contract, sandbox, run_id = self.driver.contract, self.driver.sandbox, str(self.run["run_id"])
        session = (self.run.get("engine_session_handle") or {}).get("handle_value") if number > 1 else None
        kept, is_other = self.sticky, bool(self.driver.server)
        stdout, stderr = (
            self.shim.printed(start, name) if is_other else saved(self._data, run_id, number, name)
            for name in ("stdout", "stderr")
        )
        ended, code = how_ended(self.run, described, sticky=kept), described.get("exit_code")
        if is_other:  # only its API could tell how the engine ended
            ended = Ended.LINGERED
        reading = read_turn(
            contract, Mode.INTERACTIVE, stdout, stderr, code, turn_index=number, resumed=session, ended=ended
        )
        if kept:  # its streams follow a protocol, whose result only the server knows
            result = AdapterTurnResult(Outcome(described.get("outcome") or Outcome.ERROR))
            reading = structs.replace(reading, result=result, session=None)
            stdout = printed(protocol(self._data, run_id, number))
        started, stranger = sandbox.started(), sandbox.stranger
        turn = Turn(
            name=f"{self.driver.case}/{step}",
            argv=(contract.executable, *start.arguments),
            own_arguments=start.arguments if kept or is_other else tuple(described.get("argv") or ()),
            cwd=start.cwd,
            mode=Mode.INTERACTIVE,
            prompt=asked.prompt,
            nonce=asked.nonce,
            resumed=None if kept else session,
            scripted=asked.scripted,
            exit_code=code,
            ended=ended,
            finished_at=time.time(),
            seconds=described.get("seconds") or 0.0,
            cpu_seconds=0.0,
            stdout=stdout,
            stderr=stderr,
            leftovers=alive(start.tag),
            requests=requests,
            reading=reading,
            turn_index=number,
            env=sandbox.variables(contract.hermetic, sandbox.work),
            started=started,
            effects=None if stranger is None else stranger.effects(requests, started or ()),
            acted=self.driver.acted(asked, sandbox.work),
        )
        self.driver.note(turn)
