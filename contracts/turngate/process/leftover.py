"""A process that outlived the one that was run."""

from msgspec import Struct


class Leftover(Struct, frozen=True):
    """A process of the tree that was still alive after the main process exited on its own.

    `survived`: it could not be ended. After a timeout or a stop, only such processes are reported. `argv` is empty if
    it could not be read.
    """

    pid: int
    argv: tuple[str, ...]
    survived: bool
