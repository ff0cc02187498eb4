"""The files of a client that lets an agent read and write them."""

from collections.abc import Callable, Sequence

from turngate_probes.simulate.printing import Slots
from turngate_probes.simulate.sticky.inbox import Message


class ClientFiles:
    """`uses` are `read` and `write`, as far as the agent does; `offered` are the client's capabilities.

    `call` sends a request to the client and returns its answer.
    """

    def __init__(self, uses: Sequence[str], call: Callable[[str, Message], Message]) -> None:
        self.offered: Message = {}
        self._uses, self._call = uses, call

    @property
    def writes(self) -> bool:
        """Whether files are written through the client."""
        return "write" in self._uses and bool(self.offered.get("writeTextFile"))

    def can_read(self, slots: Slots) -> bool:
        """Whether the client can read the file, or need not."""
        return self.read(slots) is None

    def read(self, slots: Slots) -> str | None:
        """Read the file through the client, if the agent does that; return the error."""
        if "read" not in self._uses or not self.offered.get("readTextFile"):
            return None
        return self._failure("fs/read_text_file", {"path": slots["path"], "sessionId": slots["handle"]})

    def write(self, slots: Slots) -> str | None:
        """Write the file through the client, and return the error."""
        about = {"path": slots["path"], "content": slots["content"], "sessionId": slots["handle"]}
        return self._failure("fs/write_text_file", about)

    def _failure(self, method: str, params: Message) -> str | None:
        error = self._call(method, params).get("error")
        return str(error.get("message")) if isinstance(error, dict) else None
