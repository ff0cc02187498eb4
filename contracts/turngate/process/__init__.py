"""The impure corner: run an engine process, stream what it writes, end its whole tree."""

from turngate.model import Ended
from turngate.process.execution import EXIT_LIMIT, OnOutput, ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.process.orphans import Noted, end_orphans, start_time
from turngate.process.session_store import session_exists
from turngate.process.tree import TAG, Leftover, ProcessTree, Tree

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
    "Tree",
    "end_orphans",
    "run",
    "session_exists",
    "start_time",
]
