"""JSON-RPC from the engine's side: requests are answered in order, and some are sent to the client."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Never

from turngate_probes.simulate.sticky.client import Message, StdioClient
from turngate_probes.simulate.sticky.engine import StickyEngine

NO_METHOD, BAD_PARAMS, INTERNAL = -32601, -32602, -32603


class RpcError(Exception):
    """A request is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Rpc(ABC):
    """Speaks JSON-RPC; `VERSION` is what each message names, nothing where the protocol leaves that out."""

    VERSION: ClassVar[Mapping[str, str]] = {"jsonrpc": "2.0"}

    def __init__(self, engine: StickyEngine, client: StdioClient) -> None:
        self.engine, self._client = engine, client
        self._asked = 0

    def serve(self) -> Never:
        """Answer until the process ends."""
        while True:
            message = self._client.read()
            method, params = message.get("method"), message.get("params")
            if not isinstance(method, str):
                continue
            try:
                self.hear(method, params if isinstance(params, dict) else {}, message)
            except RpcError as error:
                if "id" in message:
                    self._put(id=message["id"], error={"code": error.code, "message": str(error)})

    @abstractmethod
    def hear(self, method: str, params: Message, message: Message) -> None:
        """Take a request or a notification; RpcError answers it with an error."""

    def reply(self, message: Message, result: Message) -> None:
        """Answer a request."""
        if "id" in message:
            self._put(id=message["id"], result=result)

    def tell(self, method: str, params: Message) -> None:
        """Send a notification."""
        self._put(method=method, params=params)

    def request_each(self, method: str, params: Message, times: int) -> list[Message]:
        """Send a request several times at once, and return the answers in the order in which they came."""
        open_ = {self._asked + i for i in range(times)}
        self._asked += times
        for number in sorted(open_):
            self._put(id=number, method=method, params=params)
        answers = []
        while open_:
            answer = self._client.wait_for(lambda message: "method" not in message and message.get("id") in open_)
            open_.discard(answer["id"])
            answers.append(answer)
        return answers

    def _put(self, **message: Any) -> None:
        self._client.write({**self.VERSION, **message})
