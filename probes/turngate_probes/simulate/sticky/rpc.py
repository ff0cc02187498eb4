"""JSON-RPC from the engine's side: requests are answered in order, and some are sent to the client."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from turngate.contract.launch import OneTime
from turngate_probes.simulate.backend import Called
from turngate_probes.simulate.sticky.engine import StickyEngine, dict_at
from turngate_probes.simulate.sticky.message_queue import Message

UNKNOWN_METHOD = "turngate/unknown"
BAD_REQUEST, NO_METHOD, BAD_PARAMS, INTERNAL = -32600, -32601, -32602, -32603


class RpcError(Exception):
    """Answers a request with an error."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class Rpc(StickyEngine):
    """Speaks JSON-RPC; `VERSION` is part of each message, empty if the protocol leaves it out."""

    VERSION: ClassVar[Mapping[str, str]] = {"jsonrpc": "2.0"}
    _asked = -1

    @abstractmethod
    def request(self, method: str, params: Message, message: Message) -> None:
        """Handle a request or a notification; RpcError answers it with an error."""

    @abstractmethod
    def permission_params(self, call: Called, once: OneTime) -> Message:
        """Return the parameters of a request for permission."""

    def hear(self, message: Message) -> None:
        """Answer a request or handle a notification; anything else is ignored."""
        if not isinstance(method := message.get("method"), str):
            return
        try:
            self.request(method, dict_at(message, "params"), message)
        except RpcError as error:
            if "id" in message:
                about = {"data": error.data} if error.data else {}
                self._put(id=message["id"], error={"code": error.code, "message": str(error), **about})

    def reply(self, message: Message, result: Message) -> None:
        """Answer a request."""
        if "id" in message:
            self._put(id=message["id"], result=result)

    def tell(self, method: str, params: Message) -> None:
        """Send a notification."""
        self._put(method=method, params=params)

    def permission_request(self, kind: str, call: Called, once: OneTime) -> tuple[object, Message]:
        """Return a request with the next number."""
        self._asked += 1
        params = self.permission_params(call, once)
        return self._asked, {**self.VERSION, "id": self._asked, "method": kind, "params": params}

    def unknown_request(self) -> tuple[object, Message]:
        """Return a request of an unknown method, with the next number."""
        self._asked += 1
        return self._asked, {**self.VERSION, "id": self._asked, "method": UNKNOWN_METHOD, "params": {}}

    def unknown_message(self, about: Message) -> Message:
        """Return a notification of an unknown method."""
        return {**self.VERSION, "method": UNKNOWN_METHOD, "params": about}

    def answered(self, message: Message) -> object:
        """Return the number of the request that a message answers."""
        return None if "method" in message else message.get("id")

    def call(self, method: str, params: Message) -> Message:
        """Send a request to the client and return its answer; CancelledTurn if the client cancels the turn first."""
        self._asked += 1
        self._put(id=self._asked, method=method, params=params)
        return self.client.wait_for([self._asked])

    def _put(self, **message: Any) -> None:
        self.client.write({**self.VERSION, **message})
