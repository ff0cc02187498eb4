"""What the transports over JSON-RPC share; the SDK's connection matches answers to requests."""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import orjson
from acp import RequestError
from acp.connection import Connection

from turngate_reference.server.sticky.pipes import ProcessPipes
from turngate_reference.server.sticky.transport import Message, Transport, TransportContext, TransportError


class Texts:
    """The agent's texts of one turn: pieces of the same message are joined, a new message replaces the last."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._message: object = None

    def add(self, text: str, message: object = None) -> None:
        """Take a piece of a message (None: of the only one there is)."""
        if message != self._message:
            self._pieces, self._message = [], message
        self._pieces.append(text)

    @property
    def final(self) -> str | None:
        """The last message; None if there was no text."""
        return "".join(self._pieces) or None


class RpcTransport(Transport):
    """Calls an engine, answers its requests for permission and hears its notifications, in order.

    What is no JSON object, or no message, is passed over. Every other request is answered with an error, and so
    never granted.
    """

    def __init__(self, context: TransportContext) -> None:
        super().__init__(context)
        self._connection = Connection(self._handle, _Messages(context.pipes))

    @abstractmethod
    def on_notification(self, method: str, params: Message) -> None:
        """Hear what the engine tells."""

    @abstractmethod
    async def on_permission(self, params: Message) -> Message | None:
        """Answer a request for permission; None: with an error."""

    async def call(self, method: str, params: Mapping[str, Any]) -> Message:
        """Return the result; TransportError with the engine's words if it answers with an error."""
        try:
            result = await self._connection.send_request(method, dict(params))
        except RequestError as error:
            details = error.data.get("details") if isinstance(error.data, dict) else None
            raise TransportError(f"{method}: {error}" + (f": {details}" if details else "")) from error
        return result if isinstance(result, dict) else {}

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the engine something."""
        await self._connection.send_notification(method, dict(params))

    async def close(self) -> None:
        """Stop listening."""
        await self._connection.close()

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Message | None:  # noqa: FBT001 - the SDK's
        params = params if isinstance(params, dict) else {}
        if is_notification:
            self.on_notification(method, params)
            return None
        if method in self.sticky.permission_requests and (answer := await self.on_permission(params)) is not None:
            return answer
        raise RequestError.method_not_found(method)


class _Messages:
    """The pipes as the SDK wants them: messages instead of lines."""

    def __init__(self, pipes: ProcessPipes) -> None:
        self._pipes = pipes
        self._arrived: asyncio.Queue[Message | None] = asyncio.Queue()
        pipes.on_line = self._take

    async def send(self, message: Message) -> None:
        self._pipes.send(orjson.dumps(message))

    async def receive(self) -> Message | None:
        return await self._arrived.get()

    async def close(self) -> None:
        self._arrived.put_nowait(None)

    def _take(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        if isinstance(message, dict) and isinstance(message.get("id"), int | str | None):
            self._arrived.put_nowait(message)
