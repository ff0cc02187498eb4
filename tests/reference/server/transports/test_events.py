"""Tests of a host that keeps no process, as that of a terminal."""

from pathlib import Path

import pytest

from turngate.contract import load
from turngate.model import Mode
from turngate_reference.server.transports.events import Host, OpenRequest


def test_a_host_that_keeps_none_starts_none() -> None:
    """It refuses to open a process, and ignores all that is for one."""
    host = Host()
    request = OpenRequest(Path("codex"), load.contract("codex").at(), Path("/"), {}, Mode.INTERACTIVE, "tag", Path("/"))
    with pytest.raises(ValueError, match="run"):
        host.open("run", request, print)
    host.prompt("run", "go on")
    host.decide("run", "1", "accept")
    host.end("run")
