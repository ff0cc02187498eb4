"""Runs an engine process, streams its output, and ends its whole process tree."""

from typing import TYPE_CHECKING

from turngate.model import Ended
from turngate.process.execution import EXIT_LIMIT, OnOutput, ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.process.sessions import TAG, Leftover
from turngate.process.tree import ProcessTree

if TYPE_CHECKING:
    from turngate.process.family import Noted, end_orphans, is_alive, start_time, tagged

__all__ = [
    "EXIT_LIMIT",
    "TAG",
    "Ended",
    "Leftover",
    "Noted",
    "OnOutput",
    "ProcessOutcome",
    "ProcessRequest",
    "ProcessTree",
    "Stdin",
    "Stop",
    "end_orphans",
    "is_alive",
    "run",
    "start_time",
    "tagged",
]


if not TYPE_CHECKING:  # to a type checker, a module that has this function has every name

    def __getattr__(name: str) -> object:
        """Import a name of `family` on first use, since psutil is slow to import; AttributeError: it has none such."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from turngate.process import family  # noqa: PLC0415 - see above

        return getattr(family, name)
