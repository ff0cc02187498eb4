"""Runs a turn of a resumable run in a process that may stay for its next turn."""

import logging
import queue
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from turngate import Ended, Stop
from turngate.contract.session_ids import unsafe
from turngate.process.session_store import session_exists
from turngate_reference.engine.attempt import traces
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult, decide_sticky, failed
from turngate_reference.server.orchestrator.headless import HeadlessTurn, first_prompt, reply_prompt
from turngate_reference.server.orchestrator.sessions import stored_session
from turngate_reference.server.orchestrator.warm_processes import WarmProcess, WarmProcesses
from turngate_reference.server.sticky import events
from turngate_reference.server.store import runs
from turngate_reference.states import Delivery, RunErrorCode, State

log = logging.getLogger(__name__)

CHECK_SECONDS = 3.0  # for a process that has waited to answer a request
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
        its process may still exist, unless the turn was cut short. TurnFailed as for a headless turn.
        """
        run = self.turn.run
        self.turn.command(reply)
        if reply is None:
            prompt = first_prompt(run.launch, run.artifacts)
        else:
            prompt = reply_prompt(reply, run.launch, run.artifacts)
        deadline = time.monotonic() + run.timeout
        if kept := self.processes.take(run.run_id):
            self.processes.host.prompt(run.run_id, prompt, checked=True)
            ended = self._follow(_Prompt(kept, prompt, Delivery.LIVING_PROCESS), deadline, stop)
            if ended is not None:
                return ended
        if reply is not None and not self.turn.engine.contract.sticky.loads_headless:
            return None
        try:
            process = self.processes.open(run.run_id, self._request())
        except ValueError:  # the server is closing
            return INTERRUPTED, TurnResult()
        return self._follow(_Prompt(process, prompt, Delivery.NEW_PROCESS), deadline, stop)

    def _request(self) -> events.StickyRequest:
        run, engine, env = self.turn.run, self.turn.engine, self.turn.env
        tag = run.process.tag if run.process else ""
        session = run.session["handle_value"] if run.session else None
        return events.StickyRequest(
            engine.executable,
            engine.contract,
            run.cwd,
            {**env, "PWD": str(run.cwd)},
            run.mode,
            tag,
            traces(run.run_directory, run.turn_index),
            run.model,
            run.launch.engine_options,
            warm=True,
            session=session,
        )

    def _follow(self, prompt: "_Prompt", deadline: float, stop: Stop) -> Ending | None:
        """Follow the process until the turn has ended; None if it is gone without having got anything of the prompt."""
        process, check_until = prompt.process, time.monotonic() + CHECK_SECONDS
        with stop.telling(process.events) as already:  # type: ignore[arg-type]
            event: events.StickyEvent | Ended | None = Ended.STOPPED if already else None
            while True:
                match event:
                    case Ended():
                        return self._cut_short(INTERRUPTED)
                    case events.TurnEnded():
                        return self._ended(event)
                    case events.Lost() | events.Gone():
                        return self._lost(prompt, getattr(event, "detail", "it was ended"))
                    case _:
                        self._heard(prompt, event)
                is_checking = prompt.delivery is Delivery.LIVING_PROCESS and not prompt.is_made
                until = min(check_until, deadline) if is_checking else deadline
                try:
                    event = process.events.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    if is_checking:
                        return self._lost(prompt, "it doesn't answer")
                    return self._cut_short(_LATE)

    def _cut_short(self, decision: Decision) -> Ending:
        """End a turn together with its process, which must not go on in the workspace of a run that has ended."""
        self.processes.finish(self.turn.run.run_id)
        return decision, TurnResult()

    def _heard(self, prompt: "_Prompt", event: object) -> None:
        """Handle what happens during a turn."""
        run, outbox, process = self.turn.run, self.turn.outbox, prompt.process
        match event:
            case events.Opened():
                note = structs.replace(process.note, kept=run.process.kept if run.process else None)
                outbox.put(lambda connection: runs.change(connection, run.run_id, process=note))
                self.processes.host.prompt(run.run_id, prompt.text)
            case events.Prompted():
                prompt.is_made = True
                argv = process.opened.argv if process.opened else ()
                outbox.put(lambda connection: transitions.note_argv(connection, run, argv))
                outbox.put(lambda connection: transitions.note_delivery(connection, run, prompt.delivery))
            case events.AgentText():
                self.turn.on_text(event.text)

    def _lost(self, prompt: "_Prompt", why: str) -> Ending | None:
        """End a process that can't continue; None if it has got nothing of the prompt."""
        process = prompt.process
        self.processes.finish(process.run_id)
        with suppress(queue.Empty):
            while not prompt.is_made:
                prompt.is_made = isinstance(process.events.get_nowait(), events.Prompted)
        if prompt.is_made:
            return failed(self._failure_code, why), TurnResult()
        log.info("%s can't use its process: %s", process.run_id, why)
        return None

    def _ended(self, event: events.TurnEnded) -> Ending:
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
            session = stored_session(contract, session_id, run.turn_index)
            if decision.state is State.WAITING_USER:
                seen = session_exists(contract.store, session_id, run.locations, run.cwd) is True
        return decision, replace(result, session=session, session_seen=seen)

    def _session_flaw(self, session_id: str) -> str:
        """Return why a headless turn could not resume the session of the turn; empty if it could."""
        run = self.turn.run
        if why := unsafe(session_id):
            return f"the session id can't be passed on: {why}"
        known = run.session["handle_value"] if run.session else session_id
        return "" if known == session_id else f"the engine answered in session {session_id} instead of {known}"

    @property
    def _failure_code(self) -> RunErrorCode:
        return RunErrorCode.ENGINE_FAILED if self.turn.run.turn_index == 1 else RunErrorCode.SESSION_RESUME_FAILED


@dataclass(slots=True)
class _Prompt:
    """A prompt on its way to a process; `is_made` once the process may have got something of it."""

    process: WarmProcess
    text: str
    delivery: Delivery
    is_made: bool = False
