from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Browser, browser

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in this folder."""
    here = str(HERE)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker("browser")


@pytest.fixture(name="tab", scope="session")
def _tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start one browser for all tests, each of which opens its own page."""
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab
