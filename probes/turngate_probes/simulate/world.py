"""What surrounds a simulated engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from turngate.contract import Stream
from turngate_probes.simulate.backend import Backend


class Input(Protocol):
    """Standard input."""

    def read(self) -> bytes:
        """Read to the end."""

    def readline(self) -> bytes:
        """Read a line with its newline; empty at the end."""


@dataclass(frozen=True, slots=True)
class World:
    """What surrounds the engine: `write` takes bytes of a stream, `hang` never returns, `clock` is epoch seconds.

    `faults` are what it is to do wrong.
    """

    env: Mapping[str, str]
    cwd: str
    stdin: Input
    write: Callable[[Stream, bytes], None]
    hang: Callable[[], NoReturn]
    clock: Callable[[], float]
    backend: Backend
    faults: frozenset[str] = frozenset()
