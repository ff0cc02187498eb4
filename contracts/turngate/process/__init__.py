"""Runs an engine process, streams its output, and ends its whole process tree."""

from turngate.model import Ended
from turngate.process.execution import EXIT_LIMIT, OnOutput, ProcessOutcome, ProcessRequest, Stdin, Stop, run
from turngate.process.scan import TAG, Leftover, Noted, end_orphans, is_alive, start_time, tagged
from turngate.process.session_store import session_exists
from turngate.process.tree import ProcessTree

__all__ = [
    "EXIT_LIMIT", "TAG", "Ended", "Leftover", "Noted", "OnOutput", "ProcessOutcome", "ProcessRequest", "ProcessTree",
    "Stdin", "Stop", "end_orphans", "is_alive", "run", "session_exists", "start_time", "tagged",
]  # fmt: skip
