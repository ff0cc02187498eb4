"""The base classes of all transports, and of those over JSON-RPC."""

import asyncio
import itertools
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import orjson

from turngate import Mode, Reported, strict_json
from turngate.contract.launch import OneTime
from turngate.model import ReportKind
from turngate.turn.framing import EXCERPT, RECORD, parsed
from turngate_reference.server.transports.engine_process import EngineProcess, TransportError
from turngate_reference.server.transports.events import AgentText, Listener

Message: TypeAlias = dict[str, Any]
_logger = logging.getLogger(__name__)


# a tool, a prompt, what to answer for each one-time choice of the engine, the choices that grant, and the action
Ask: TypeAlias = Callable[
    [str, str, Mapping[str, Message], Collection[str], Mapping[str, Any]], Awaitable[Message | None]
]


class Transport(ABC):
    """Speaks one protocol; `ask` decides permissions (None: refuse without a choice).

    `tell` gets the agent's texts, and what the engine reports beside its answer, except the tools that `ask` denied.

    All coroutines run on the loop of the process and end with it. They raise TransportError if the engine violates its
    contract, and never return once the process is lost.
    """

    def __init__(self, process: EngineProcess, ask: Ask, tell: Listener) -> None:
        self.session_id: str | None = None
        self.process, self.request, self.approval = process, process.request, process.approval
        self.sticky, self._ask, self._tell = process.request.contract.sticky, ask, tell
        # if the session is asked for it
        self.model = self.request.model if self.sticky.model == "session" else None
        self.numbers = itertools.count(1)
        self._waiting: dict[object, asyncio.Future[Message]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        # messages of the turn that can't be read: the last one before any text that follows, and any other
        self._dropped, self._broken = "", ""
        process.on_line, process.problems.on_loss = self._on_line, self._on_drop

    @abstractmethod
    async def open(self) -> None:
        """Open a session; in mode interactive, switch asking on and check that it is on."""

    @abstractmethod
    async def turn(self, text: str) -> tuple[str | None, str | None]:
        """Run one turn; return the agent's last text (None: no text), and the failure that the engine reports."""

    @abstractmethod
    def on_message(self, message: Message, line: bytes) -> None:
        """Handle a line; one that isn't a JSON object counts as an empty message."""

    @abstractmethod
    async def on_permission(self, params: Message, once: OneTime) -> Message | None:
        """Answer a request for permission."""

    async def run_turn(self, text: str) -> tuple[str | None, str | None]:
        """Run one turn as `turn` does; it also fails if a message that may be its answer can't be read."""
        self._dropped = self._broken = ""
        answer, failure = await self.turn(text)
        lost = self._broken or self._dropped
        return answer, failure or (f"a message of its output can't be read: {lost}" if lost else None)

    def close(self) -> None:
        """Drop the open requests."""
        for task in self._asking:
            task.cancel()

    def send(self, message: Message) -> None:
        """Write a message."""
        self.process.send(orjson.dumps(message))

    async def exchange(self, request_id: object, request: Message) -> Message:
        """Send a request and return the message that answers it."""
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answered
        self.send(request)
        return await answered

    def answered(self, request_id: object, message: Message) -> None:
        """Handle the answer to a request; an answer that nobody waits for is ignored."""
        waiting = self._waiting.pop(request_id, None)
        if waiting and not waiting.done():
            waiting.set_result(message)

    def answer(self, kind: object, params: Message, reply: Callable[[Message | None], None]) -> None:
        """Answer a permission request with the user's decision; any other request gets None, so it is never granted."""
        task = asyncio.get_running_loop().create_task(self._answer(kind, params, reply))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def permission(
        self,
        subject: str,
        answers: Mapping[str, Message],
        grants: Collection[str],
        action: Message,
        shown: Iterable[str],
        tool: object = None,
    ) -> Message | None:
        """Ask whether an action is allowed, showing these members of it; None means refuse it without a choice.

        `tool` is the name of the tool, if the request has one.
        """
        context = {key: action[key] for key in shown if action.get(key)}
        return await self._ask(str(tool or subject), f"Allow this action? {subject}".strip(), answers, grants, context)

    def say(self, text: str) -> None:
        """Pass on what the agent says."""
        self._dropped = ""
        self._tell(AgentText(text))

    def report(self, kind: ReportKind, text: object) -> None:
        """Pass on what the engine reports beside its answer, if that is a text."""
        if isinstance(text, str) and text.strip():
            self._tell(Reported(kind, text))

    def begins_own_turn(self) -> None:
        """Lose a process that began a turn by itself while its user was to reply: it acts, and nobody sees it."""
        if self.request.mode is Mode.INTERACTIVE:
            self.process.lose("it began a turn of its own after the end of its turn")

    def left_for(self, session_id: object) -> str:
        """Return the failure of a turn that continued in another session, which lacks the earlier conversation."""
        return f"it switched from session {self.session_id} to {session_id}"

    def _on_line(self, line: bytes) -> None:
        message = parsed(line)
        wrong = strict_json.flaw(message)
        if message is None and RECORD in line:
            wrong = "JSON that exceeds the limits" if _is_beyond_limits(line) else None
            self._broken = f"{line[:EXCERPT].decode('utf-8', 'backslashreplace')!r} isn't JSON"
        if wrong:
            self.process.lose(f"it sent {wrong}")
            return
        try:
            self.on_message(mapping(message), line)
        except Exception:
            _logger.exception("could not read a message from the engine")

    def _on_drop(self, what: str) -> None:
        self._dropped = what

    async def _answer(self, kind: object, params: Message, reply: Callable[[Message | None], None]) -> None:
        answer, once = None, self.sticky.one_time
        if kind in self.sticky.permission_requests and once:
            try:
                answer = await self.on_permission(params, once)
            except Exception:
                _logger.exception("could not read a request from the engine")
        reply(answer)


class RpcTransport(Transport):
    """Speaks JSON-RPC: calls an engine, answers its requests for permission and handles its notifications, in order."""

    @abstractmethod
    def on_notification(self, method: str, params: Message) -> None:
        """Handle a notification of the engine."""

    async def call(self, method: str, params: Mapping[str, Any]) -> Message:
        """Return the result of a call; TransportError with the engine's message if it answers with an error."""
        number = next(self.numbers)
        answer = await self.exchange(number, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if "error" in answer and "result" not in answer:
            error = mapping(answer["error"])
            details = mapping(error.get("data")).get("details")
            raise TransportError(f"{method}: {error.get('message', 'Error')}" + (f": {details}" if details else ""))
        return mapping(answer.get("result"))

    def on_message(self, message: Message, line: bytes) -> None:  # noqa: ARG002 - for transports of events
        """Handle a call, a notification or an answer."""
        method, params, request_id = message.get("method"), mapping(message.get("params")), message.get("id")

        def reply(answer: Message | None) -> None:
            error = {"code": -32601, "message": "Method not found", "data": {"method": method}}
            outcome = {"error": error} if answer is None else {"result": answer}
            self.send({"jsonrpc": "2.0", "id": request_id, **outcome})

        if method is None:
            self.answered(request_id, message)
        elif "id" in message:
            self.answer(method, params, reply)
        else:
            # in order, since the user is asked in a task: the end of a turn must not overtake an earlier request
            asyncio.get_running_loop().call_soon(self.on_notification, method, params)


def mapping(value: object) -> Message:
    """Return a JSON object unchanged, and anything else as an empty object."""
    return value if isinstance(value, dict) else {}


def _is_beyond_limits(line: bytes) -> bool:
    """Whether a line that orjson rejects is still JSON: nested too deeply, or with a number that is too long."""
    try:
        json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return False
    except (RecursionError, ValueError):
        return True
    return True


def confirm(what: str, wanted: str, in_force: object, obstacle: str = "") -> None:
    """Check that a requested setting is in use; None means that nothing confirms it, because of an `obstacle`."""
    if in_force is None:
        why = f": {obstacle}" if obstacle else ""
        raise TransportError(f"{what} {wanted} was requested, but can't be confirmed{why}")
    if in_force != wanted:
        raise TransportError(f"{what} {wanted} was requested, but it uses {in_force}")
