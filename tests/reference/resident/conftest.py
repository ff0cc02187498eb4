from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.resident.stage import Stage
from turngate_reference.resident import ResidentHost


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    """Open a host, and close it at the end."""
    host = ResidentHost()
    yield Stage(host, tmp_path)
    host.close()
