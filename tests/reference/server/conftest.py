from collections.abc import Iterator

import pytest

from tests.reference.desk import Desk
from tests.reference.server.house import House, house


@pytest.fixture(name="closed_house")
def _closed_house(desk: Desk) -> House:
    """Build a server that is not open yet."""
    desk.fifos()
    return house(desk)


@pytest.fixture(name="house")
def _house(closed_house: House) -> Iterator[House]:
    """Open a server for a test."""
    closed_house.keep_session()
    closed_house.open()
    yield closed_house
    closed_house.server.close()
