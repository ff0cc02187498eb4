"""Runs a turn of a resumable run in a process that may stay for its next turn."""

import logging
import queue
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from turngate import Ended, EngineContract, EngineSessionHandle, Mode, RefusedError, Stop
from turngate.argv import build
from turngate.process import session_exists
from turngate_reference.engine.attempt import traces
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult, decide_sticky, failed
from turngate_reference.server.orchestrator.headless import HeadlessTurn
from turngate_reference.server.orchestrator.prompts import first_prompt, reply_prompt
from turngate_reference.server.orchestrator.warm_processes import WarmProcess, WarmProcesses
from turngate_reference.server.states import RunErrorCode, State
from turngate_reference.server.sticky import events
from turngate_reference.server.store import runs

log = logging.getLogger(__name__)

CHECK_SECONDS = 3.0  # for a process that has waited to answer a request
LIVING, NEW = "living_process", "new_process"
_LATE = failed(RunErrorCode.TURN_TIMEOUT, "the engine was still running at its deadline")
Ending = tuple[Decision, TurnResult]


@dataclass(frozen=True, slots=True)
class WarmTurn:
    """A turn that could also run headless, which is how `turn` runs it."""

    turn: HeadlessTurn
    processes: WarmProcesses

    def play(self, reply: str | None, stop: Stop) -> Ending | None:
        """Run the turn in the process that the run has kept, else in a new one; `reply` is None for turn 1.

        None if no process has got anything of the prompt, and none is left: the turn can then run headless. Otherwise
        its process may still exist. TurnFailed as for a headless turn.
        """
        run = self.turn.run
        self.turn.command(reply)
        if reply is None:
            prompt = first_prompt(run.request, run.artifacts)
        else:
            prompt = reply_prompt(reply, run.request, run.artifacts)
        deadline = time.monotonic() + run.timeout
        if kept := self.processes.take(run.run_id):
            self.processes.prompt(kept, prompt, checked=True)
            ended = self._follow(_Delivery(kept, prompt, LIVING), deadline, stop)
            if ended is not None:
                return ended
        if reply is not None and not self.turn.engine.contract.sticky.loads_headless:
            return None
        try:
            process = self.processes.open(run.run_id, self._request())
        except ValueError:  # the server is closing
            return INTERRUPTED, TurnResult()
        return self._follow(_Delivery(process, prompt, NEW), deadline, stop)

    def _request(self) -> events.StickyRequest:
        run, engine, env = self.turn.run, self.turn.engine, self.turn.env
        session = run.session["handle_value"] if run.session else None
        return events.StickyRequest(
            engine.executable, engine.contract, run.cwd, {**env, "PWD": str(run.cwd)}, run.mode,
            (run.process or {})["tag"], traces(run.run_directory, run.turn_index), run.model,
            tuple(run.request["engine_options"]), warm=True, session=session,
        )  # fmt: skip

    def _follow(self, delivery: "_Delivery", deadline: float, stop: Stop) -> Ending | None:
        """Follow the process until the turn has ended; None if it is gone without having got anything of the prompt."""
        process, check_until = delivery.process, time.monotonic() + CHECK_SECONDS
        with stop.telling(process.events) as already:  # type: ignore[arg-type]
            event: events.StickyEvent | Ended | None = Ended.STOPPED if already else None
            while True:
                match event:
                    case Ended():
                        return INTERRUPTED, TurnResult(process=process.note)
                    case events.TurnEnded():
                        return self._ended(process, event)
                    case events.Lost() | events.Gone():
                        return self._lost(delivery, getattr(event, "detail", "it was ended"))
                    case _:
                        self._heard(delivery, event)
                is_checking = delivery.kind == LIVING and not delivery.is_made
                until = min(check_until, deadline) if is_checking else deadline
                try:
                    event = process.events.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    if is_checking:
                        return self._lost(delivery, "it doesn't answer")
                    return _LATE, TurnResult(process=process.note)

    def _heard(self, delivery: "_Delivery", event: object) -> None:
        """Handle what happens during a turn."""
        run, outbox, process = self.turn.run, self.turn.outbox, delivery.process
        match event:
            case events.Opened():
                note = (run.process or {}) | process.note
                outbox.put(lambda connection: runs.change(connection, run.run_id, process=note))
                self.processes.prompt(process, delivery.prompt, checked=False)
            case events.Prompted():
                delivery.is_made = True
                argv = process.opened.argv if process.opened else ()
                outbox.put(lambda connection: transitions.note_argv(connection, run, argv))
                outbox.put(lambda connection: transitions.note_delivery(connection, run, delivery.kind))
            case events.AgentText():
                self.turn.on_text(event.text)

    def _lost(self, delivery: "_Delivery", why: str) -> Ending | None:
        """End a process that can't continue; None if it has got nothing of the prompt."""
        process = delivery.process
        self.processes.finish(process.run_id)
        with suppress(queue.Empty):
            while not delivery.is_made:
                delivery.is_made = isinstance(process.events.get_nowait(), events.Prompted)
        if delivery.is_made:
            return failed(self._failure_code, why), TurnResult()
        log.info("%s can't use its process: %s", process.run_id, why)
        return None

    def _ended(self, process: WarmProcess, event: events.TurnEnded) -> Ending:
        """Return the next state of the run; an engine's failure takes precedence, then a missing or changed session."""
        turn, run, session_id = self.turn, self.turn.run, event.session_id or ""
        seen = session = None
        if event.failure is not None or (event.final_text is None and not event.declined):
            decision = failed(self._failure_code, event.failure or "the engine returned no answer")
            result = TurnResult()
        elif why := self._session_flaw(session_id):
            decision, result = failed(RunErrorCode.SESSION_RESUME_FAILED, why), TurnResult()
        else:
            decision, result = decide_sticky(
                run, event.final_text, None, declined=event.declined, data_flaw=turn.data_flaw
            )
        contract = turn.engine.contract
        if run.session is None and not self._session_flaw(session_id):
            handle = EngineSessionHandle(contract.engine, contract.handle.handle_type, session_id, run.turn_index)
            session = structs.asdict(handle)
            if decision.state is State.WAITING_USER:
                seen = session_exists(contract.store, session_id, run.locations, run.cwd) is True
        return decision, replace(result, session=session, session_seen=seen, process=process.note)

    def _session_flaw(self, session_id: str) -> str:
        """Return why a headless turn could not resume the session of the turn; empty if it could."""
        run = self.turn.run
        if not re.fullmatch(self.turn.engine.contract.handle.shape, session_id):
            return f"{session_id[:100]!r} is not a valid session id"
        known = run.session["handle_value"] if run.session else session_id
        return "" if known == session_id else f"the engine answered in session {session_id} instead of {known}"

    @property
    def _failure_code(self) -> RunErrorCode:
        return RunErrorCode.ENGINE_FAILED if self.turn.run.turn_index == 1 else RunErrorCode.SESSION_RESUME_FAILED


@dataclass(slots=True)
class _Delivery:
    """A prompt on its way to a process; `is_made` once the process may have got something of it."""

    process: WarmProcess
    prompt: str
    kind: str
    is_made: bool = False


def no_warm_wait(contract: EngineContract, request: Mapping[str, Any], workspace: Path) -> str | None:
    """Return why a resumable run with this request can't keep its process between turns; None if it can."""
    if contract.sticky.warm is None:
        release = f"{contract.engine} {contract.version}" if contract.version else contract.engine
        return f"the contract doesn't show that {release} can resume the sessions of a process that stays"
    options, model = request["engine_options"], request.get("model")
    try:
        build.sticky_options(contract, Mode.INTERACTIVE, options, model, workspace, warm=True)
    except RefusedError as refused:
        return str(refused)
    return None
