from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.server.sticky.stage import Stage
from turngate_reference.server.sticky.session import StickyHost


@pytest.fixture(name="stage")
def _stage(tmp_path: Path) -> Iterator[Stage]:
    """Provide a host, and close it at the end."""
    host = StickyHost()
    yield Stage(host, tmp_path)
    host.close()
