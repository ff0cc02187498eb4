"""One sticky process: opens it, runs its turns, asks for permission, and tells of its end."""

import asyncio
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from turngate.contract.structs import EngineContract
from turngate.errors import ContractError, RefusedError, TurngateError
from turngate.model import Mode
from turngate_reference.server.sticky.events import (
    AgentText,
    Gone,
    Lost,
    Opened,
    PermissionAsked,
    StickyEvent,
    StickyRequest,
    TurnEnded,
)
from turngate_reference.server.sticky.pipes import ProcessPipes
from turngate_reference.server.sticky.process import Started, start
from turngate_reference.server.sticky.stream_json import StreamJsonTransport
from turngate_reference.server.sticky.transport import (
    Message,
    Permission,
    Transport,
    TransportContext,
    TransportError,
)

_logger = logging.getLogger(__name__)
Tell = Callable[[StickyEvent], None]


@dataclass(frozen=True, slots=True)
class _OpenRequest:
    """A request for permission that waits for the user; it is decided with None once it is void."""

    request_id: str
    options: Collection[str]
    decided: asyncio.Future[str | None]


class StickySession:
    """One process; everything but `run` is called on its loop and returns at once."""

    def __init__(self, request: StickyRequest, tell: Tell, executor: Executor) -> None:
        self._request, self._tell, self._executor = request, tell, executor
        self._prompts: asyncio.Queue[str] = asyncio.Queue()
        self._ended = asyncio.Event()
        # the request that the user decides now, while others wait for the lock; the turn that may ask
        self._open: _OpenRequest | None = None
        self._asking = asyncio.Lock()
        self._asked = 0
        self._turn: object | None = None
        self._declined = False
        self._exit_code: int | None = None

    def prompt(self, text: str) -> None:
        """Run another turn, after those asked for before."""
        self._prompts.put_nowait(text)

    def decide(self, request_id: str, option: str) -> None:
        """Answer the permission request that is open; anything else is passed over."""
        current = self._open
        if current and current.request_id == request_id and option in current.options and not current.decided.done():
            current.decided.set_result(option)

    def end(self) -> None:
        """End the process."""
        self._ended.set()

    async def run(self) -> None:
        """Run the process until it is ended or lost, and leave nothing of it behind."""
        try:
            started = await self._off_loop(self._start)
            try:
                await self._talk_to(started)
            finally:
                started.hurry()
                self._exit_code = await self._off_loop(started.end)
        except (RefusedError, ContractError, OSError) as ours:
            self._lose(f"turngate can't run the process: {ours}", ours=True)
        except (TurngateError, TransportError) as failed:
            self._lose(str(failed))
        except Exception as failed:
            _logger.exception("a sticky process failed in turngate itself")
            self._lose(f"turngate failed: {failed!r}", ours=True)
        self._tell(Gone(self._exit_code))

    def _start(self) -> Started:
        self._request.traces.mkdir(parents=True, exist_ok=True)
        return start(self._request)

    async def _talk_to(self, started: Started) -> None:
        """Talk until the process is lost, or is to end; whatever is still being said is dropped then."""
        pipes = ProcessPipes(started.process, self._request.traces)
        await pipes.connect()
        talk = asyncio.create_task(self._talk(pipes, started))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait((talk, ended, pipes.lost), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._lose(pipes.lost.result() if pipes.lost.done() else _why(talk))
        finally:
            for task in (talk, ended):
                task.cancel()
            await asyncio.gather(talk, ended, return_exceptions=True)
            pipes.close()

    async def _talk(self, pipes: ProcessPipes, started: Started) -> None:
        make = await self._off_loop(lambda: transport_of(self._request.contract))
        transport: Transport = make(TransportContext(pipes, self._request, self._ask, self._say))
        try:
            await transport.open()
            self._tell(Opened(started.process.pid, started.started_at, transport.session_id, started.argv))
            while True:
                await self._run_turn(transport, await self._prompts.get())
        finally:
            with suppress(Exception):
                await transport.close()

    async def _run_turn(self, transport: Transport, text: str) -> None:
        self._declined, self._turn = False, object()
        end = await transport.turn(text)
        self._turn = None
        if self._open and not self._open.decided.done():
            self._open.decided.set_result(None)
        self._tell(TurnEnded(end.final_text, end.failure, transport.session_id, self._declined))

    async def _ask(self, permission: Permission) -> Message | None:
        """Return what the transport answers to a request; None if there is no one-time choice, or no turn."""
        if not permission.answers or self._turn is None:
            self._declined = True
            return None
        if self._request.mode is Mode.AUTO:
            chosen = next(iter(permission.grants or permission.answers))
        elif (decided := await self._decision(permission, self._turn)) is not None:
            chosen = decided
        else:
            return None
        self._declined = self._declined or chosen not in permission.grants
        return permission.answers[chosen]

    async def _decision(self, permission: Permission, turn: object) -> str | None:
        """Ask the user, after those requests that came before; None: it is void, since its turn has ended."""
        self._asked += 1
        request_id, options = f"permission-{self._asked}", tuple(permission.answers)
        async with self._asking:
            if turn is not self._turn:
                return None
            self._open = _OpenRequest(request_id, options, asyncio.get_running_loop().create_future())
            try:
                self._tell(PermissionAsked(request_id, permission.prompt, options, permission.context))
                return await self._open.decided
            finally:
                self._open = None

    def _say(self, text: str) -> None:
        self._tell(AgentText(text))

    def _lose(self, why: str, *, ours: bool = False) -> None:
        self._tell(Lost(why, ours))

    async def _off_loop(self, work: Callable[[], Any]) -> Any:
        """Run what blocks on a thread, to its end even if this task is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        return await asyncio.shield(future)


def transport_of(contract: EngineContract) -> type[Transport]:
    """Return the transport of a contract, which is slow to import; TransportError if it names none."""
    match contract.sticky.transport:
        case "acp":
            from turngate_reference.server.sticky import acp  # noqa: PLC0415 - the SDK takes a second

            return acp.AcpTransport
        case "app_server":
            from turngate_reference.server.sticky import app_server  # noqa: PLC0415 - the SDK takes a second

            return app_server.AppServerTransport
        case "stream_json":
            return StreamJsonTransport
        case _:
            raise TransportError(f"{contract.engine} can't be sticky: its contract names no transport")


def _why(talk: "asyncio.Task[None]") -> str:
    failed = talk.exception()
    return str(failed) if isinstance(failed, TransportError) else f"{type(failed).__name__}: {failed}"
