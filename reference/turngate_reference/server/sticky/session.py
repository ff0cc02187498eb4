"""Keeps one sticky process: opens it, runs its turns, asks for permission, and tells of its end."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

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
from turngate_reference.server.sticky.transport import (
    Permission,
    Transport,
    TransportContext,
    TransportError,
    speaker_for,
)

_logger = logging.getLogger(__name__)
Tell = Callable[[StickyEvent], None]


@dataclass(frozen=True, slots=True)
class _Open:
    """A request for permission that waits for the user; it is decided with None once it is void."""

    request_id: str
    permission: Permission
    decided: asyncio.Future[str | None]


class StickySession:
    """One process; everything but `run` is called on its loop and returns at once."""

    def __init__(self, request: StickyRequest, tell: Tell, executor: Executor) -> None:
        self._request, self._tell, self._executor = request, tell, executor
        self._prompts: asyncio.Queue[str] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._waiting: deque[_Open] = deque()
        self._asked = 0
        self._in_turn = self._declined = False
        self._exit_code: int | None = None

    def prompt(self, text: str) -> None:
        """Run another turn, after those asked for before."""
        self._prompts.put_nowait(text)

    def decide(self, request_id: str, option: str) -> None:
        """Answer the permission request that is open; anything else is passed over."""
        if self._waiting and self._waiting[0].request_id == request_id:
            current = self._waiting[0]
            if option in current.permission.answers and not current.decided.done():
                current.decided.set_result(option)

    def end(self) -> None:
        """End the process."""
        self._ended.set()

    async def run(self) -> None:
        """Keep the process until it is ended or lost, and leave nothing of it behind."""
        try:
            started = await self._off_loop(self._start)
            try:
                await self._keep(started)
            finally:
                started.hurry()
                self._exit_code = await self._off_loop(started.end)
        except (RefusedError, ContractError, OSError) as ours:
            self._lose(f"turngate can't keep the process: {ours}", ours=True)
        except (TurngateError, TransportError) as failed:
            self._lose(str(failed))
        except Exception as failed:
            _logger.exception("a sticky process could not be kept")
            self._lose(f"turngate failed: {failed!r}", ours=True)
        self._tell(Gone(self._exit_code))

    def _start(self) -> Started:
        self._request.traces.mkdir(parents=True, exist_ok=True)
        return start(self._request)

    async def _keep(self, started: Started) -> None:
        """Talk until the process is lost, or is to end; whatever is still being said is dropped then."""
        wire = ProcessPipes(started.process, self._request.traces)
        await wire.connect()
        talk = asyncio.create_task(self._talk(wire, started))
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait((talk, ended, wire.lost), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._lose(wire.lost.result() if wire.lost.done() else _why(talk))
        finally:
            for task in (talk, ended):
                task.cancel()
            await asyncio.gather(talk, ended, return_exceptions=True)
            wire.close()

    async def _talk(self, wire: ProcessPipes, started: Started) -> None:
        make = await self._off_loop(partial(speaker_for, self._request.contract))
        speaks: Transport = make(TransportContext(wire, self._request, self._ask, self._say))
        try:
            await speaks.open()
            self._tell(Opened(started.process.pid, started.started_at, speaks.session_id, started.argv))
            while True:
                await self._turn(speaks, await self._prompts.get())
        finally:
            with suppress(Exception):
                await speaks.close()

    async def _turn(self, speaks: Transport, text: str) -> None:
        self._declined, self._in_turn = False, True
        end = await speaks.turn(text)
        self._in_turn = False
        self._drop_asked()
        self._tell(TurnEnded(end.final_text, end.failure, speaks.session_id, self._declined))

    async def _ask(self, permission: Permission) -> Any:
        """The transport's answer to a request for permission; None if there is no one-time choice, or no turn."""
        if not permission.answers or not self._in_turn:
            self._declined = True
            return None
        if self._request.mode is Mode.AUTO:
            chosen = permission.grants[0] if permission.grants else next(iter(permission.answers))
        elif (decided := await self._decided(permission)) is not None:
            chosen = decided
        else:
            return None
        self._declined = self._declined or chosen not in permission.grants
        return permission.answers[chosen]

    async def _decided(self, permission: Permission) -> str | None:
        """Queue a request, tell of it when it is the first, and wait for the user; None: it is void."""
        self._asked += 1
        waiting = _Open(f"permission-{self._asked}", permission, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            self._tell_asked(waiting)
        try:
            return await waiting.decided
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                if self._waiting:
                    self._tell_asked(self._waiting[0])

    def _tell_asked(self, asked: _Open) -> None:
        permission = asked.permission
        self._tell(PermissionAsked(asked.request_id, permission.prompt, tuple(permission.answers), permission.context))

    def _drop_asked(self) -> None:
        """Refuse the requests that are open when their turn has ended."""
        dropped, self._waiting = list(self._waiting), deque()
        for asked in dropped:
            if not asked.decided.done():
                asked.decided.set_result(None)

    def _say(self, text: str) -> None:
        self._tell(AgentText(text))

    def _lose(self, why: str, *, ours: bool = False) -> None:
        self._tell(Lost(why, ours))

    async def _off_loop(self, work: Callable[[], Any]) -> Any:
        """Run what blocks on a thread, to its end even if this task is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        return await asyncio.shield(future)


def _why(talk: "asyncio.Task[None]") -> str:
    failed = talk.exception()
    return str(failed) if isinstance(failed, TransportError) else f"{type(failed).__name__}: {failed}"
