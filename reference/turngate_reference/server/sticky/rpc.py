"""JSON-RPC over a wire, by the SDK's connection, which matches answers to requests."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from acp import RequestError
from acp.connection import Connection

from turngate_reference.server.sticky.pipes import ProcessPipes
from turngate_reference.server.sticky.transport import TransportError

Message = dict[str, Any]


class Rpc:
    """Calls an engine; `on_request` answers its requests, `on_notification` hears the rest, in order.

    What is no JSON object, or no message, is passed over. A request that `on_request` knows nothing of (it gives
    None) is answered with an error, and so never granted.
    """

    def __init__(
        self,
        wire: ProcessPipes,
        on_request: Callable[[str, Message], Awaitable[Message | None]],
        on_notification: Callable[[str, Message], None],
    ) -> None:
        self._on_request, self._on_notification = on_request, on_notification
        self._connection = Connection(self._handle, _Messages(wire))

    async def call(self, method: str, params: Mapping[str, Any]) -> Message:
        """Return the result; SpeechError with the engine's words if it answers with an error."""
        try:
            result = await self._connection.send_request(method, dict(params))
        except RequestError as error:
            raise TransportError(_words(method, error)) from error
        return result if isinstance(result, dict) else {}

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell the engine something."""
        await self._connection.send_notification(method, dict(params))

    async def close(self) -> None:
        """Stop to listen."""
        await self._connection.close()

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Message | None:  # noqa: FBT001 - the SDK's
        told = params if isinstance(params, dict) else {}
        if is_notification:
            self._on_notification(method, told)
            return None
        answer = await self._on_request(method, told)
        if answer is None:
            raise RequestError.method_not_found(method)
        return answer


class _Messages:
    """The wire as the SDK wants it: messages instead of lines."""

    def __init__(self, wire: ProcessPipes) -> None:
        self._wire = wire
        self._arrived: asyncio.Queue[Message | None] = asyncio.Queue()
        wire.on_line = self._take

    async def send(self, message: Message) -> None:
        self._wire.send(orjson.dumps(message))

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


def _words(method: str, error: RequestError) -> str:
    details = error.data.get("details") if isinstance(error.data, dict) else None
    return f"{method}: {error}" + (f": {details}" if details else "")
