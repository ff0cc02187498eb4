"""A resumable run on a private server that keeps its process between turns, until that is killed."""

import os
import signal
import time
from contextlib import nullcontext, suppress

from msgspec.structs import replace

from turngate_probes.harness.driver import Ask
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.server_level.server_run import GONE_WITHIN, ServerRun
from turngate_probes.server_level.shim import EngineStart
from turngate_probes.server_level.traces import alive

_LOOK = 0.02
_UNENDED = ("queued", "running", "waiting_user")


class WarmRun(ServerRun):
    """Like ServerRun; its `process` is the newest one that the server has started."""

    @property
    def process(self) -> EngineStart:
        """The newest start of the engine for this run; CaseStoppedError if there is none."""
        starts = self._starts()
        if not starts:
            raise CaseStoppedError(f"the engine could not be started: {self._standing()}", by_engine=True)
        return starts[-1]

    def kill(self) -> None:
        """Kill the process and all below it; CaseStoppedError if one of them is still there later."""
        tag = self.process.tag
        for process in alive(tag):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        if not self._gone(tag):
            raise CaseStoppedError("processes of the engine are still running after SIGKILL")

    def resume_headless(self, step: str, asked: Ask) -> None:
        """Run a headless turn in the session of the run, of which the server isn't told."""
        session = (self.run.get("engine_session_handle") or {}).get("handle_value")
        # it uses the slot of the case
        replace(self.driver, slot=lambda: nullcontext(lambda: None)).resume(step, session, asked)
        self._new_requests()

    def finish(self, step: str) -> None:
        """Wait until the run has ended and its process is gone, or the deadline; record its events, if it has ended."""
        self.follow(step, _UNENDED)
        self._gone(self.process.tag)
        if self.run.get("state") not in _UNENDED:  # its events would never end
            self._get("events", "events")

    def _gone(self, tag: str) -> bool:
        """Wait until the processes of a start are gone, or the deadline; return whether they are."""
        deadline = time.monotonic() + GONE_WITHIN
        while alive(tag):
            if time.monotonic() > deadline:
                return False
            self.driver.interrupt.wait(_LOOK)
        return True

    def _is_kept(self, number: int) -> bool:
        """Whether the process of a turn is kept for the next one: only the server's headless turns have an output."""
        attempt = self._data / "runs" / str(self.run["run_id"]) / ".turngate" / f"attempt-{number:03}"
        return not (attempt / "stdout").exists()
