"""The impure corner: run an engine process, stream what it writes, end its whole tree."""

from turngate.runtime.process import Ended, ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.runtime.tree import TAG, Leftover, ProcessTree, Tree

__all__ = [
    "TAG",
    "Ended",
    "Leftover",
    "ProcessOutcome",
    "ProcessRequest",
    "ProcessTree",
    "Stdin",
    "Stop",
    "Tree",
    "run",
]
