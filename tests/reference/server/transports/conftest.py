from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.server.transports.stage import Stage
from turngate_reference.server.transports import acp
from turngate_reference.server.transports.host import ProcessHost


@pytest.fixture(autouse=True)
def _no_late_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Don't wait a second after each turn for text that no simulated agent sends, but one with a fault."""
    monkeypatch.setattr(acp, "LATE_SECONDS", 0.05)


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    """Provide a host, and close it at the end."""
    host = ProcessHost()
    yield Stage(host, tmp_path)
    host.close()
