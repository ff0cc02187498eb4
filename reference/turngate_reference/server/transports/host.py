"""The processes that a server keeps: opens each, runs its turns, asks for permission, and reports its end.

Theory of operation
===================

A `ProcessHost` has one event loop in one thread, and talks there with all processes. A blocked loop would hold up every
engine, so nothing that blocks may run on it: the start of a process and its end run on a few worker threads
(`_off_loop`), to their end even if the task is cancelled.

Each process has a `HostedProcess`, whose task `run` owns it: it makes an `EngineProcess`, which holds the
`ProcessTree`, has a worker start it, and talks through a `Transport` until the process is lost or must end. Then it
closes the pipes on the loop, and a worker ends and reaps the whole tree, whatever has failed before. Only then `run`
reports `Gone`, its last event. An exit is noticed without a thread that waits for it and without reaping: the loop
looks from time to time.

Callers are on other threads. A method of the host only passes the call on to the loop and returns; `close` alone waits.
Answers come as events, through the listener that was given to `open`, on the loop's thread: a listener must not block
but pass them on. The threads share the table of the processes, under a lock. A call for a run that has no process, or
none any more, does nothing, so no caller needs to know whether it is still there.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Any

from turngate import ContractError, Mode, RefusedError, Reported, TurngateError
from turngate.model import MAX_NAME, MAX_NAMES
from turngate_reference.server.transports.acp import AcpTransport
from turngate_reference.server.transports.app_server import AppServerTransport
from turngate_reference.server.transports.engine_process import EngineProcess, TransportError
from turngate_reference.server.transports.events import (
    Gone,
    Host,
    Listener,
    Lost,
    Opened,
    OpenRequest,
    PermissionAsked,
    ProcessEvent,
    PromptSent,
    TurnEnded,
)
from turngate_reference.server.transports.json_commands import JsonCommandsTransport
from turngate_reference.server.transports.stream_json import StreamJsonTransport
from turngate_reference.server.transports.transport import Message, Transport

log = logging.getLogger(__name__)


_TRANSPORTS: dict[str, type[Transport]] = {
    "acp": AcpTransport,
    "app_server": AppServerTransport,
    "json_commands": JsonCommandsTransport,
    "stream_json": StreamJsonTransport,
}
# threads that start processes, and as many that end them; more would slow the others down
WORKERS = 2


class HostedProcess:
    """One process; everything but `run` is called on its loop and returns at once."""

    def __init__(self, request: OpenRequest, tell: Listener, starters: Executor, enders: Executor) -> None:
        self._request, self._tell, self._starters, self._enders = request, tell, starters, enders
        self._prompts: asyncio.Queue[str] = asyncio.Queue()
        self._ended = asyncio.Event()
        # the request that the user is deciding, while others wait for the lock; None decides a void one
        self._open: PermissionAsked | None = None
        self._decided: asyncio.Future[str | None] | None = None
        self._asking = asyncio.Lock()
        self._asked = 0
        # the turn that may ask
        self._turn: object | None = None
        self._declined = False

    def prompt(self, text: str) -> None:
        """Run another turn, after those requested earlier."""
        self._prompts.put_nowait(text)

    def decide(self, request_id: str, option: str) -> None:
        """Answer the open permission request; anything else is ignored."""
        if self._open and self._open.request_id == request_id and option in self._open.options:
            self._decide(option)

    def end(self) -> None:
        """End the process."""
        self._ended.set()

    async def run(self) -> None:
        """Run the process until it is ended or lost, and clean up everything it leaves."""
        exit_code = None
        try:
            process = EngineProcess(self._request)
            await _off_loop(self._starters, process.start)
            try:
                await self._talk_to(process)
            finally:
                process.hurry()
                exit_code = await _off_loop(self._enders, process.end)
        except (RefusedError, ContractError, OSError) as ours:
            self._tell(Lost(f"turngate can't run the process: {ours}", ours=True))
        except (TurngateError, TransportError) as failed:
            self._tell(Lost(str(failed)))
        except Exception as failed:
            log.exception("a kept process failed because of an error in turngate")
            self._tell(Lost(f"turngate failed: {failed!r}", ours=True))
        self._tell(Gone(exit_code))

    async def _talk_to(self, process: EngineProcess) -> None:
        """Talk until the process is lost, or must end; unfinished exchanges are dropped then."""
        with closing(process):
            await process.connect()
            talk = asyncio.create_task(self._talk(process))
            ended = asyncio.create_task(self._ended.wait())
            try:
                await asyncio.wait((talk, ended, process.lost), return_when=asyncio.FIRST_COMPLETED)
                if process.lost.done() and not ended.done():
                    self._tell(Lost(process.lost.result()))
                elif not ended.done() and (failed := talk.exception()):
                    # also if a message that does not fit the contract made us fail
                    is_stated = isinstance(failed, TransportError)
                    self._tell(Lost(str(failed) if is_stated else f"{type(failed).__name__}: {failed}"))
            finally:
                for task in (talk, ended):
                    task.cancel()
                await asyncio.gather(talk, ended, return_exceptions=True)

    async def _talk(self, process: EngineProcess) -> None:
        make = _TRANSPORTS.get(self._request.contract.sticky.transport)
        if make is None:
            raise TransportError(f"{self._request.contract.engine} can't be sticky: its contract defines no transport")
        transport = make(process, self._ask, self._tell)
        try:
            await transport.open()
            self._tell(Opened(process.pid, process.started_at, transport.session_id, process.argv))
            while True:
                await self._run_turn(transport, await self._prompts.get())
        finally:
            transport.close()

    async def _run_turn(self, transport: Transport, text: str) -> None:
        self._declined, self._turn = False, object()
        self._tell(PromptSent())
        final_text, failure = await transport.run_turn(text)
        self._turn = None
        self._decide(None)
        self._tell(TurnEnded(final_text, failure, transport.session_id, self._declined))

    def _decide(self, option: str | None) -> None:
        if self._decided and not self._decided.done():
            self._decided.set_result(option)

    async def _ask(
        self,
        tool: str,
        prompt: str,
        answers: Mapping[str, Message],
        grants: Collection[str],
        context: Mapping[str, Any],
    ) -> Message | None:
        """Return the transport's answer to a request; None without a one-time choice or a running turn.

        A request with more or longer choices than a question may have is declined, too.
        """
        too_much = len(answers) > MAX_NAMES or any(len(name) > MAX_NAME for name in answers)
        if not answers or too_much or self._turn is None:
            self._decline(tool)
            return None
        chosen: str | None = next(iter(grants or answers))
        if self._request.mode is not Mode.AUTO:
            self._asked += 1
            asked = PermissionAsked(f"permission-{self._asked}", prompt, tuple(answers), context)
            chosen = await self._decision(asked, self._turn)
        if chosen is None:
            return None
        if chosen not in grants:
            self._decline(tool)
        return answers[chosen]

    def _decline(self, tool: str) -> None:
        self._declined = True
        self._tell(Reported("denied", tool))

    async def _decision(self, asked: PermissionAsked, turn: object) -> str | None:
        """Ask the user, after earlier requests; None: the request is void, since its turn has ended."""
        async with self._asking:
            if turn is not self._turn:
                return None
            self._open, self._decided = asked, asyncio.get_running_loop().create_future()
            try:
                self._tell(asked)
                return await self._decided
            finally:
                self._open = None


async def _off_loop(executor: Executor, work: Callable[[], Any]) -> Any:
    """Run a blocking call on a thread, to its end even if this task is cancelled."""
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(executor, work))


class ProcessHost(Host):
    """Holds processes by run id. Every method may be called from any thread; only `close` blocks.

    The events after a call go to the run's listener, on the thread of the loop: it must not block. The events
    of a run are in order: `Opened`, then for each prompt `PromptSent`, texts, reports, permission requests and
    `TurnEnded`; `Lost` at any time; `Gone` last, always. A call for a run without a process is ignored.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # two pools: a start may wait long for its proof, and must not delay the end of another process
        self._starters = ThreadPoolExecutor(WORKERS, "turngate-kept-start")
        self._enders = ThreadPoolExecutor(WORKERS, "turngate-kept-end")
        self._lock = threading.Lock()
        self._sessions: dict[str, HostedProcess] = {}
        self._runs: set[Future[None]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="turngate-kept", daemon=True)
        self._thread.start()

    def open(self, run_id: str, request: OpenRequest, listener: Listener) -> None:
        """Start a process for a run; ValueError if the run has one already, or the host is closed."""
        session = HostedProcess(
            request, lambda event: self._tell(run_id, event, listener), self._starters, self._enders
        )
        with self._lock:
            if self._closed or run_id in self._sessions:
                raise ValueError("the host is closed" if self._closed else f"{run_id} has a process already")
            self._sessions[run_id] = session
            run = asyncio.run_coroutine_threadsafe(session.run(), self._loop)
            self._runs.add(run)
        run.add_done_callback(self._runs.discard)

    def prompt(self, run_id: str, text: str) -> None:
        """Run the next turn in the same process."""
        self._call(run_id, lambda session: session.prompt(text))

    def decide(self, run_id: str, request_id: str, option: str) -> None:
        """Answer the open permission request with one of its options; one that is no longer open is ignored."""
        self._call(run_id, lambda session: session.decide(request_id, option))

    def end(self, run_id: str) -> None:
        """End the whole tree of a run's process; `Gone` reports that it has ended."""
        self._call(run_id, HostedProcess.end)

    def close(self) -> None:
        """End every process, and return when all are gone; not to be called on the thread of the loop."""
        with self._lock:
            already, self._closed = self._closed, True
        if not already:
            for run_id in list(self._sessions):
                self.end(run_id)
            wait(list(self._runs))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._starters.shutdown()
            self._enders.shutdown()
            self._loop.close()

    def _call(self, run_id: str, what: Callable[[HostedProcess], None]) -> None:
        with self._lock:
            if session := self._sessions.get(run_id):
                self._loop.call_soon_threadsafe(what, session)

    def _tell(self, run_id: str, event: ProcessEvent, listener: Listener) -> None:
        if isinstance(event, Gone):
            with self._lock:
                del self._sessions[run_id]
        try:
            listener(event)
        except Exception:
            log.exception("the listener of %s failed", run_id)
