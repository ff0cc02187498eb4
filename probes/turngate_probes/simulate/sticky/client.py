"""The client of a simulated engine: JSON messages on lines, in both directions."""

import json
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from turngate_probes.simulate.backend import EngineContext
from turngate_probes.simulate.sticky import faults

Message: TypeAlias = dict[str, Any]
_NOISE = b"Loading plugins...\n"


class EndedError(Exception):
    """The process ends, with an exit code."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class StdioClient:
    """Reads and writes messages."""

    def __init__(self, world: EngineContext) -> None:
        self._world = world
        self._postponed: deque[Message] = deque()

    def read(self) -> Message:
        """Return the next message; EndedError at the end of the input. What is not a JSON object is passed over."""
        return self._postponed.popleft() if self._postponed else self._arrived()

    def wait_for(self, is_it: Callable[[Message], bool]) -> Message:
        """Return the next message of a kind; others that come before it are read later."""
        while not is_it(message := self._arrived()):
            self._postponed.append(message)
        return message

    def write(self, message: Message) -> None:
        """Write a message."""
        noise = _NOISE if faults.PRINTS_NOISE in self._world.faults else b""
        self._world.write("stdout", noise + json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def _arrived(self) -> Message:
        while line := self._world.stdin.readline():
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                return message
            self._world.write("stderr", b"a line of the input is not a JSON object\n")
        if faults.IGNORES_TERMINATION in self._world.faults:
            self._world.hang()
        raise EndedError(0)
