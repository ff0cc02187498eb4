from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.server.transports.stage import Stage
from turngate_reference.server.transports.host import ProcessHost


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    """Provide a host, and close it at the end."""
    host = ProcessHost()
    yield Stage(host, tmp_path)
    host.close()
